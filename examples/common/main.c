/* main() of a training program. The build defines TUFF_EXAMPLE as the name of its `example`. */
#include "example.h"

extern const example TUFF_EXAMPLE;

int main(int count, char **words)
{
    return example_main(&TUFF_EXAMPLE, count, words);
}
