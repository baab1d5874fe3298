/* The common style. Colours are variables, which a dark colour scheme replaces. */
#define _POSIX_C_SOURCE 200809L
#include "tools/cli/page.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static const char common_style[] =
    ":root{color-scheme:light "
    "dark;--ground:#fbfaf8;--card:#fff;--ink:#1d2329;--soft:#66717c;--line:#dcdfe3;--box:#c3d2e3;"
    "--mark:#5d6b7a;--win:#0b7a53;--warn:#9a4b00}\n"
    "@media "
    "(prefers-color-scheme:dark){:root{--ground:#14181c;--card:#1c2228;--ink:#e6eaee;--soft:#98a4b0;--line:#323b44;"
    "--box:#34506c;--mark:#a9b6c3;--win:#4cc795;--warn:#f0a35e}}\n"
    "*{box-sizing:border-box}body{margin:0 auto;max-width:70rem;padding:1.5rem 1rem 4rem;background:var(--ground);"
    "color:var(--ink);font:16px/1.45 system-ui,sans-serif}\n"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.15rem;margin:2.5rem 0 "
    ".25rem}h3{font-size:1rem;margin:0}p{margin:.25rem "
    "0}\n.soft{color:var(--soft);font-size:.875rem}.win{color:var(--win)}.warn{color:var(--warn)}code{font:.8125rem/"
    "1.5 "
    "ui-monospace,monospace;overflow-wrap:anywhere}\n"
    ".tiles{display:flex;flex-wrap:wrap;gap:.75rem;margin:1rem 0}.tile{background:var(--card);border:1px solid "
    "var(--line);border-radius:.5rem;padding:.6rem .9rem;flex:1 1 10rem}.tile b{display:block;font-size:1.25rem}\n"
    "dl{display:grid;grid-template-columns:max-content "
    "minmax(0,1fr);gap:.15rem .9rem;margin:.5rem 0 0;font-size:.875rem}dt{color:var(--soft)}dd{margin:0}\n"
    ".bar{height:.35rem;border-radius:.2rem;background:var(--line);margin-top:.3rem}.bar i{display:block;height:100%;"
    "border-radius:.2rem;background:var(--win)}\n";

void page_begin(text *out, const char *title, const char *style)
{
    tuff__text_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                        "content=\"width=device-width,initial-scale=1\"><title>tuff: ");
    page_add_escaped(out, title);
    tuff__text_add(out, "</title>\n<style>\n");
    tuff__text_add_bytes(out, common_style, sizeof common_style - 1);
    tuff__text_add_bytes(out, style, strlen(style));
    tuff__text_add(out, "</style></head><body>\n");
}

void page_end(text *out)
{
    tuff__text_add(out, "</body></html>\n");
}

void page_add_escaped(text *out, const char *source)
{
    for (; source && *source; source++) {
        const char *name = *source == '&'    ? "&amp;"
                           : *source == '<'  ? "&lt;"
                           : *source == '>'  ? "&gt;"
                           : *source == '"'  ? "&quot;"
                           : *source == '\'' ? "&#39;"
                                             : NULL;
        tuff__text_add_bytes(out, name ? name : source, name ? strlen(name) : 1);
    }
}

void page_add_tile(text *out, const char *name, const char *value)
{
    tuff__text_add(out, "<div class=\"tile\"><b>%s</b><span class=\"soft\">%s</span></div>", value, name);
}

void page_add_fact(text *out, const char *name, const char *value)
{
    tuff__text_add(out, "<dt>%s</dt><dd>", name);
    page_add_escaped(out, value);
    tuff__text_add(out, "</dd>");
}

void page_add_number(text *out, const char *name, double value)
{
    char shown[32];
    (void)snprintf(shown, sizeof shown, "%.10g", value);
    page_add_fact(out, name, shown);
}

const char *page_duration(double nanoseconds, char *buffer, size_t size)
{
    static const char *const units[] = {"ns", "\xc2\xb5s", "ms", "s"};
    int unit = 0;
    while (nanoseconds >= 999.5 && unit < 3) {
        nanoseconds /= 1000;
        unit++;
    }
    const int digits = nanoseconds >= 99.95 ? 0 : nanoseconds >= 9.995 ? 1 : 2;
    (void)snprintf(buffer, size, "%.*f\xc2\xa0%s", unit == 0 ? 0 : digits, nanoseconds, units[unit]);
    return buffer;
}

const char *page_day(int64_t seconds, char *buffer, size_t size)
{
    const time_t now = (time_t)seconds;
    struct tm parts;
    buffer[0] = 0;
    if (gmtime_r(&now, &parts))
        (void)strftime(buffer, size, "%Y-%m-%d %H:%M UTC", &parts);
    return buffer;
}
