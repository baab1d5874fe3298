/* The program of an example: the build defines TUFF_EXAMPLE as the name of its description. */
#include "example.h"

extern const example TUFF_EXAMPLE;

int main(int count, char **words)
{
    return example_main(&TUFF_EXAMPLE, count, words);
}
