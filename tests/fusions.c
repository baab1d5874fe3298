/* The first passes of the compiler. */
#include "fusions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compile/siblings.h"
#include "compile/simplify.h"

void with_fusion(tuff_graph *graph, const tuff_compile_options *options,
                 void (*visit)(const struct fusion *fusion, void *state), void *state)
{
    struct fusion fusion;
    assert_non_null(graph);
    tuff_graph *simple = tuff__simplify(graph, false);
    assert_non_null(simple);
    assert_int_equal(tuff__merge_siblings(simple), TUFF_OK);
    assert_int_equal(tuff__fuse(simple, options, MAX_BINDINGS, &fusion), TUFF_OK);
    visit(&fusion, state);
    tuff__fusion_free(&fusion);
    tuff_graph_destroy(simple);
    tuff_graph_destroy(graph);
}
