/* Rows of a family stand together in the table. */
#include "tune/portfolio.h"

#include <stddef.h>
#include <string.h>

#define PORTFOLIO(family, candidate) #family,
static const char *const families[] = {
#include "tune/portfolio.def"
    NULL};
#undef PORTFOLIO

#define PORTFOLIO(family, candidate) candidate,
static const char *const candidates[] = {
#include "tune/portfolio.def"
    NULL};
#undef PORTFOLIO

int tuff__portfolio_of(const char *family, const char *const **out)
{
    int first = 0, count = 0;
    while (families[first] && strcmp(families[first], family) != 0)
        first++;
    while (families[first + count] && strcmp(families[first + count], family) == 0)
        count++;
    *out = &candidates[first];
    return count < PORTFOLIO_MOST ? count : PORTFOLIO_MOST;
}
