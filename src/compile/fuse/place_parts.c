/* Concats in memory: the task that computes a part writes it straight into its place, as a strided view, instead of the
   part being copied there. */
#include "compile/fuse/fuse.h"

#define MAX_SELECTED_PARTS 4 /* parts; kernels do not select between more, which are then written part by part */

/* The node that computes a part, and the part's place as a view with that node's axes. */
typedef struct destination {
    const node *at;
    view place;
} destination;

static view place_of_part(const node *concat, int index, int64_t start)
{
    view result = tuff__view_contiguous(concat->outputs[0].shape);
    const int axis = concat->attributes.axis;
    result.extent[axis] = concat->inputs[index]->shape.extent[axis];
    result.offset = start * result.stride[axis];
    return result;
}

/* Turns the view of a movement's result into the view of its input. Returns false if strides cannot express it. */
static bool undo_movement(const node *movement, view *place)
{
    path back = tuff__path_reshape(movement->inputs[0]->shape, NULL);
    if (movement->op == OP_PERMUTE) {
        back.kind = STEP_PERMUTE;
        for (int i = 0; i < back.shape.rank; ++i)
            back.order[movement->attributes.order[i]] = i;
    }
    return tuff__view_apply(place, &back);
}

static bool has_memory_elsewhere(const struct fusion *fusion, const node *at)
{
    return tuff__op_is_source(at->op) || fusion->facts[at->id].placed_in != NULL || at->op == OP_CONCAT;
}

static bool is_whole_piece(const destination *part)
{
    view contiguous = tuff__view_contiguous(part->at->outputs[0].shape);
    contiguous.offset = part->place.offset;
    return tuff__view_equal(&contiguous, &part->place);
}

/* Whether the node can be laid out as the part's place is. A node that is also needed as a whole elsewhere must be
   contiguous; attention writes the elements of a head consecutively. */
static bool allows_layout(const struct fusion *fusion, const destination *part)
{
    const node_facts *facts = &fusion->facts[part->at->id];
    if (facts->is_output || facts->row_major || part->at->op == OP_ATTENTION_LSE)
        return is_whole_piece(part);
    return !tuff__op_is_attention(part->at->op) || part->place.extent[3] == 1 || part->place.stride[3] == 1;
}

/* Whether this part alone is a view of inner: two parts may be views of the same node. */
static bool is_only_view(const struct fusion *fusion, const node *concat, const node *movement, const node *inner)
{
    for (int i = 0; i < concat->input_count; ++i)
        if (concat->inputs[i]->node == inner)
            return false;
    return movement->op == OP_RESHAPE || fusion->facts[inner->id].consumer_count == 1;
}

/* Marks the node. Returns whether another part already led to it: a value can have only one place. */
static bool was_marked(const struct fusion *fusion, const node *at)
{
    const bool marked = fusion->marks[at->id] == fusion->mark;
    fusion->marks[at->id] = fusion->mark;
    return marked;
}

/* Follows reshapes and permutes back from a part to the node that computes it. Stops before a node that another part
   has led to since the fusion's mark was raised; the part is then a copy. Sets *shared if the part itself is another
   part as well. */
static destination find_destination(const struct fusion *fusion, const node *concat, int index, int64_t start,
                                    bool *shared)
{
    destination found = {.at = concat->inputs[index]->node, .place = place_of_part(concat, index, start)};
    *shared = was_marked(fusion, found.at);
    while ((found.at->op == OP_RESHAPE || found.at->op == OP_PERMUTE) && !fusion->facts[found.at->id].forced) {
        const node *inner = found.at->inputs[0]->node;
        view place = found.place;
        if (has_memory_elsewhere(fusion, inner) || !is_only_view(fusion, concat, found.at, inner) ||
            !undo_movement(found.at, &place))
            break;
        const destination next = {.at = inner, .place = place};
        if (!allows_layout(fusion, &next) || was_marked(fusion, inner))
            break;
        found = next;
    }
    return found;
}

static void add_to_parts(struct fusion *fusion, const node *concat, const node *at)
{
    const node **link = &fusion->facts[concat->id].first_part;
    while (*link != NULL && (*link)->id < at->id)
        link = &fusion->facts[(*link)->id].next_part;
    fusion->facts[at->id].next_part = *link;
    *link = at;
}

static void place(struct fusion *fusion, const node *concat, const destination *part)
{
    node_facts *facts = &fusion->facts[part->at->id];
    add_to_parts(fusion, concat, part->at);
    facts->materialized = true;
    facts->placed_in = concat;
    facts->placed_at = part->place.offset;
    facts->layout = part->place;
    facts->layout.offset = 0;
    facts->has_layout = true;
}

/* Finds the place of every part and, unless check_only is set, lays the parts out there. Returns whether all may lie
   there. */
static bool visit_parts(struct fusion *fusion, const node *concat, bool check_only)
{
    int64_t start = 0;
    ++fusion->mark;
    for (int i = 0; i < concat->input_count; ++i) {
        bool shared;
        const destination part = find_destination(fusion, concat, i, start, &shared);
        if (check_only && (shared || has_memory_elsewhere(fusion, part.at) || !allows_layout(fusion, &part)))
            return false;
        if (!check_only && tuff_shape_count(concat->inputs[i]->shape) > 0)
            place(fusion, concat, &part);
        start += concat->inputs[i]->shape.extent[concat->attributes.axis];
    }
    return true;
}

void tuff__write_parts_in_place(struct fusion *fusion, const node *concat)
{
    node_facts *facts = &fusion->facts[concat->id];
    if (!facts->materialized && concat->input_count <= MAX_SELECTED_PARTS)
        return;
    facts->materialized = true;
    if (facts->placed_in == NULL && visit_parts(fusion, concat, true))
        (void)visit_parts(fusion, concat, false);
}
