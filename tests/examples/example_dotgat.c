/* Runs the training program of DynamicDotGAT from its command line to its files. */
#include "example_program.h"

extern const example dotgat_example;

int main(void)
{
    static const char *const tiny[] = {"--set", "B=2", "--set", "T=5", "--set", "A=3", "--set", "H=8",
                                       "--set", "n=2", "--set", "M=5", "--set", "S=1", NULL};
    return test_example_program(&(example_case){.model = &dotgat_example, .tiny = tiny, .refused = "H=9", .turns = 2});
}
