/* Runs the merges of matmuls one after another: each sees the graph that the previous one left. */
#include "compile/rewrite/matmul_merge.h"

tuff_status tuff__merge_matmuls(tuff_graph *graph, const tuff_compile_options *options, pass_choices *passes)
{
    static const tuff_compile_options defaults = {.fuse = TUFF_FUSE_ALL};
    static tuff_status (*const all[])(rewriting *) = {tuff__merge_columns, tuff__merge_terms, tuff__merge_gradients,
                                                      tuff__split_k};
    for (size_t i = 0; i < sizeof all / sizeof *all; ++i) {
        rewriting self;
        tuff_status status = tuff__rewriting_begin(&self, graph);
        self.options = options != NULL ? options : &defaults;
        self.passes = passes;
        if (status == TUFF_OK)
            status = all[i](&self);
        TRY(tuff__rewriting_end(&self, status));
    }
    return TUFF_OK;
}
