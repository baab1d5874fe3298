/* The program of the tree of blocks. */
#define _XOPEN_SOURCE 700
#include "example_program.h"

extern const example k1_tree_example;

int main(void)
{
    static const char *const tiny[] = {"--set", "B=2", "--set", "S=5", "--set", "V=9", "--set", "D=4",
                                       "--set", "n=2", "--set", "F=3", "--set", "depth=2", "--set", "top_k=2", NULL};
    return test_example_program(&(example_case){.model = &k1_tree_example, .tiny = tiny, .refused = "top_k=5"});
}
