/* Loops whose turns need nothing of each other, on every processor. */
#ifndef TUFF_BASE_PARALLEL_H
#define TUFF_BASE_PARALLEL_H

/* Calls turn(user, i) once for every i below count, from several threads at once, this one among them; returns when the
   last call has. Which thread has which turn is chance, so turns tell what went wrong through user: tuff_error() is of
   a thread. Where no thread is to be had, all turns are this one's. */
void tuff__parallel(int count, void (*turn)(void *user, int index), void *user);

#endif
