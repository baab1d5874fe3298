/* Picks the next candidate of a search: first the list (default, cached, seeds, portfolio), then random points and
   neighbours of the best two. A strategy is a function that lowers configurations until one results in a new program;
   of several such offers the one with the least estimated cost is taken. */
#include "search/search_state.h"

/* Percentage of the climb's picks that are random points, since neighbours alone get stuck in local minima. */
enum { RANDOM_PERCENT = 30 };
/* Random points drawn to find one that is new and can be lowered. */
enum { RANDOM_DRAWS = 64 };
/* New candidates that are lowered for each one that is tried: the cheapest by the cost model. The others may be offered
   again. tests/search/tune_recordings.c shows that this pays. */
enum { RANDOM_OFFERS = 8, STEP_OFFERS = 4 };
/* Spaces of at most this many points are enumerated when nothing else is left. */
enum { SMALL_SPACE = 1 << 16 };

/* The result of lowering a configuration. */
typedef enum novelty { NEW_PROGRAM, KNOWN_PROGRAM, NO_PROGRAM, NOT_LOWERED } novelty;

static const seen_config *find_seen(const search *self, uint64_t hash)
{
    for (int i = 0; i < self->seen_count; i++)
        if (self->seen[i].hash == hash)
            return &self->seen[i];
    return NULL;
}

static bool is_known_program(const search *self, uint64_t program)
{
    for (int i = 0; i < self->seen_count; i++)
        if (self->seen[i].program == program)
            return true;
    return false;
}

static bool remember(search *self, uint64_t hash, uint64_t program)
{
    if (!GROW(self->seen, self->seen_count, self->seen_capacity)) {
        tuff__search_fail(self, TUFF_E_OOM_HOST);
        return false;
    }
    self->seen[self->seen_count++] = (seen_config){hash, program};
    return true;
}

/* Tells the evaluator that it need not keep the result of lowering. */
static void forget(search *self, const tune_config *config)
{
    if (self->evaluator.forget)
        self->evaluator.forget(self->evaluator.state, config);
}

/* Lowers a configuration, unless that was done before. *program is 0 if there is none. */
static novelty lower(search *self, const tune_config *config, candidate *out, uint64_t *program)
{
    const uint64_t hash = tuff__config_hash(config);
    const seen_config *before = find_seen(self, hash);
    *program = before ? before->program : 0;
    if (before)
        return before->program ? KNOWN_PROGRAM : NO_PROGRAM;
    if (tuff__search_is_over(self))
        return NOT_LOWERED;
    candidate_info made = {0};
    const tune_evaluation found = self->evaluator.lower(self->evaluator.state, config, &made);
    self->counts.lowered++;
    if (!tuff__search_accept(self, config, found))
        return self->end || !remember(self, hash, 0) ? NOT_LOWERED : NO_PROGRAM;
    *program = made.program ? made.program : 1;
    const bool known = is_known_program(self, *program);
    self->counts.duplicates += known;
    if (known)
        forget(self, config);
    if (tuff__space_add_tunables(&self->space, &made.used_tunables) > 0)
        self->enumerated = 0; /* an axis more, and every point has another index */
    if (!remember(self, hash, *program))
        return NOT_LOWERED;
    *out =
        (candidate){.handle = {*config, *program, made.group_items, -1}, .rank = RANK_FOUND, .listed = -1, .move = -1};
    out->hash = hash;
    out->cost = made.cost;
    tuff__config_trim(&out->handle.config, &made.used_tunables);
    return known ? KNOWN_PROGRAM : NEW_PROGRAM;
}

/* Picks the next listed candidate. A configuration that cannot be lowered as it is, is fitted to the space. */
static bool pick_listed(search *self, candidate *out)
{
    while (self->next_listed < self->listed_count && !self->end) {
        const int index = self->next_listed++;
        tune_config config = self->listed[index];
        uint64_t program;
        novelty found = lower(self, &config, out, &program);
        if (found == NO_PROGRAM && index > 0) {
            tuff__space_fit(&self->space, &config);
            found = lower(self, &config, out, &program);
        }
        out->rank = self->ranks[index];
        out->listed = index;
        if (found == NEW_PROGRAM)
            return true;
        /* Without its default a search has nothing to start from. */
        if (index == 0 && !self->end)
            self->end = SEARCH_UNUSABLE;
    }
    return false;
}

/* Keeps the cheaper of *out and the program just lowered. That program is removed from those seen, so that it may be
   offered again. Returns whether it became *out. */
static bool keep_cheaper(search *self, const candidate *one, int offers, candidate *out)
{
    self->seen_count--;
    if (offers > 0 && one->cost >= out->cost)
        return false;
    *out = *one;
    return true;
}

/* Adds the offer that was kept to the programs seen. */
static bool commit_offer(search *self, int offers, const candidate *kept)
{
    return offers > 0 && !self->end && remember(self, kept->hash, kept->handle.program);
}

static bool pick_random(search *self, int draws, candidate *out)
{
    int offers = 0;
    tune_config kept;
    for (int i = 0; i < draws && offers < RANDOM_OFFERS && !self->end; i++) {
        tune_config config;
        uint64_t program;
        candidate one;
        if (!self->evaluator.draw)
            tuff__space_random(&self->space, &self->random, &config);
        else if (!self->evaluator.draw(self->evaluator.state, &self->random, &config))
            break;
        if (lower(self, &config, &one, &program) != NEW_PROGRAM)
            continue;
        const bool is_kept = keep_cheaper(self, &one, offers, out);
        if (offers > 0)
            forget(self, is_kept ? &kept : &config);
        kept = is_kept ? config : kept;
        offers = one.cost > 0 ? offers + 1 : RANDOM_OFFERS;
    }
    return commit_offer(self, offers, out);
}

static bool add_step(search *self, frontier *moves, int first, int second)
{
    if (!GROW(moves->steps, moves->count, moves->capacity)) {
        tuff__search_fail(self, TUFF_E_OOM_HOST);
        return false;
    }
    moves->steps[moves->count++] = (step){(short)first, (short)second};
    return true;
}

static void swap_steps(step *steps, int first, int second)
{
    const step moved = steps[first];
    steps[first] = steps[second];
    steps[second] = moved;
}

static void shuffle(rng *from, step *steps, int count)
{
    for (int i = count - 1; i > 0; i--)
        swap_steps(steps, i, tuff__rng_below(from, i + 1));
}

/* Puts the move that led to the centre first, since it may help again. */
static void put_first(frontier *self, int move)
{
    for (int i = 0; i < self->singles; i++)
        if (self->steps[i].first == move) {
            self->steps[i] = self->steps[0];
            self->steps[0] = (step){(short)move, -1};
        }
}

static bool make_frontier(search *self, frontier *out, int centre, int move)
{
    const int moves = tuff__space_moves(&self->space);
    out->next = out->count = 0;
    for (int first = 0; first < moves; first++)
        if (!add_step(self, out, first, -1))
            return false;
    out->singles = out->count;
    for (int first = 0; first < moves; first++)
        for (int second = (first / 2 + 1) * 2; second < moves; second++)
            if (!add_step(self, out, first, second))
                return false;
    shuffle(&self->random, out->steps, out->singles);
    shuffle(&self->random, out->steps + out->singles, out->count - out->singles);
    put_first(out, move);
    out->centre = centre;
    return true;
}

/* A single move goes on past values that give no kernel or the same one; a double move does not. */
static novelty apply_step(search *self, const candidate *centre, step by, candidate *out)
{
    tune_config config = centre->handle.config;
    const uint64_t from = centre->handle.program;
    uint64_t program;
    novelty found;
    do {
        if (!tuff__space_move(&self->space, by.first, &config) ||
            (by.second >= 0 && !tuff__space_move(&self->space, by.second, &config)))
            return KNOWN_PROGRAM;
        found = lower(self, &config, out, &program);
    } while (by.second < 0 && (found == NO_PROGRAM || (found == KNOWN_PROGRAM && program == from)));
    return found;
}

/* Offers that are not taken stay right after the one taken, and are offered again. */
static bool pick_step(search *self, frontier *moves, int end, candidate *out)
{
    const candidate centre = self->candidates[moves->centre];
    int offers = 0, chosen = -1;
    for (int at = moves->next; at < end && offers < STEP_OFFERS && !self->end; at++) {
        const step by = moves->steps[at];
        candidate one;
        if (apply_step(self, &centre, by, &one) != NEW_PROGRAM) {
            swap_steps(moves->steps, at, moves->next);
            chosen = chosen == moves->next ? at : chosen;
            moves->next++;
            continue;
        }
        one.move = by.second < 0 ? by.first : -1;
        if (keep_cheaper(self, &one, offers, out))
            chosen = at;
        offers = one.cost > 0 ? offers + 1 : STEP_OFFERS;
    }
    if (chosen >= 0)
        swap_steps(moves->steps, chosen, moves->next++);
    return commit_offer(self, offers, out);
}

/* Makes the best two candidates the centres. The moves of a new centre are shuffled again; known programs are
   skipped. */
static bool update_frontiers(search *self)
{
    const int centres[FRONTIERS] = {self->best, tuff__search_fastest(self, self->best)};
    for (int i = 0; i < FRONTIERS; i++) {
        frontier *moves = &self->frontiers[i];
        if (centres[i] == moves->centre)
            continue;
        moves->centre = -1;
        if (centres[i] >= 0 && !make_frontier(self, moves, centres[i], i ? -1 : self->last_move))
            return false;
    }
    return true;
}

/* Tries single moves of both centres before double ones; every third pick starts from the second best. */
static bool pick_neighbour(search *self, candidate *out)
{
    if (!update_frontiers(self))
        return false;
    const int first = self->turn++ % 3 == 2;
    for (int doubles = 0; doubles < 2; doubles++)
        for (int i = 0; i < FRONTIERS; i++) {
            frontier *moves = &self->frontiers[first ^ i];
            if (moves->centre >= 0 && pick_step(self, moves, doubles ? moves->count : moves->singles, out))
                return true;
        }
    return false;
}

static bool pick_remaining(search *self, candidate *out)
{
    const uint64_t count = tuff__space_count(&self->space);
    while (count <= SMALL_SPACE && self->enumerated < count && !self->end) {
        tune_config config;
        uint64_t program;
        tuff__space_at(&self->space, self->enumerated++, &config);
        if (lower(self, &config, out, &program) == NEW_PROGRAM)
            return true;
    }
    return count > SMALL_SPACE && pick_random(self, 16 * RANDOM_DRAWS, out);
}

bool tuff__search_pick(search *self, candidate *out)
{
    if (pick_listed(self, out))
        return true;
    if (self->end || self->settings.no_climb || self->best < 0)
        return false;
    if (tuff__rng_below(&self->random, 100) < RANDOM_PERCENT && pick_random(self, RANDOM_DRAWS, out))
        return true;
    return pick_neighbour(self, out) || pick_remaining(self, out);
}
