/* What the verbs share on the command line: tables of options, messages, exit codes, opening a device. */
#ifndef TUFF_TOOLS_CLI_CLI_H
#define TUFF_TOOLS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tuff.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

typedef enum cli_option_kind {
    CLI_TEXT,
    CLI_TEXTS,
    CLI_INTEGER,
    CLI_BYTES,
    CLI_NUMBER,
    CLI_CHOICE,
    CLI_SWITCH
} cli_option_kind;

/* Values of an option that may be given several times. */
typedef struct cli_strings {
    const char **items; /* freed by cli_texts_free */
    int count, capacity;
} cli_strings;
void cli_texts_free(cli_strings *texts);
/* Whether one of the words occurs in the name. */
bool cli_is_any_part(const cli_strings *words, const char *name);

/* An option, as a row of a verb's table. value points to: const char * for CLI_TEXT, cli_strings for CLI_TEXTS, int64_t
   for CLI_INTEGER and CLI_BYTES (a number, optionally with K, M or G for powers of 1024), double for CLI_NUMBER, int
   (the index of the choice) for CLI_CHOICE, bool for CLI_SWITCH. Its value before parsing is the default. *given is set
   if the option was present; given may be NULL. */
typedef struct cli_option {
    const char *name; /* "--steps" */
    cli_option_kind kind;
    void *value;
    const char *placeholder; /* "N"; for CLI_CHOICE the choices, "on|off" */
    const char *help;
    double low, high; /* bounds of CLI_INTEGER, CLI_BYTES and CLI_NUMBER, inclusive */
    bool *given;
} cli_option;

typedef struct cli_verb {
    const char *name;                        /* "cache list" if it is a verb of `tuff cache` */
    const char *operand;                     /* "[NAME]"; NULL if it takes none */
    const char *summary;                     /* one line for the list of verbs; NULL: not listed, not for users */
    const char *about;                       /* a paragraph for --help, or NULL */
    int (*run)(int count, char **arguments); /* without the verb's name; returns an exit code */
    bool repeats;                            /* runs one plan many times; the other verbs ignore TUFF_TUNE_BACKGROUND */
    const char *program;                     /* NULL: "tuff" */
} cli_verb;

/* A program that has verbs, or a verb that has verbs of its own. */
typedef struct cli_group {
    const char *name;    /* "tuff cache" */
    const char *summary; /* one line, or NULL */
    const char *about;   /* printed below the list of verbs; ends with a newline */
    const cli_verb *const *verbs;
    int verb_count;
} cli_group;

/* Returns the verb whose last word is name; NULL if there is none. */
const cli_verb *cli_find_verb(const cli_group *group, const char *name);
/* Runs the verb that the first argument names, with the remaining arguments. If there is no such verb, prints a message
   and the list and returns EXIT_USAGE; for --help prints the list. */
int cli_run_verb(const cli_group *group, int count, char **arguments);

/* The result of parsing: continue, or exit with this code (--help or a message was printed). */
typedef struct cli_end {
    bool now;
    int code;
} cli_end;
/* Ends the verb with this code. */
cli_end cli_exit(int code);

/* Parses arguments by the table. operand receives the verb's only operand, and is NULL if it takes none. */
cli_end cli_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                  const char **operand);
/* The same for a verb with any number of operands. */
cli_end cli_parse_all(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                      cli_strings *operands);

/* Prints "tuff VERB: " and the text to stderr; returns the code. */
int cli_fail(const cli_verb *verb, int code, const char *format, ...);
/* The same with the subject, followed by the library's last error. Returns EXIT_FAILED. */
int cli_fail_library(const cli_verb *verb, const char *subject);

/* Prints the library's warnings to stderr from now on. */
void cli_show_warnings(void);

/* Opens a device, or prints why it cannot be opened and which alternatives there are. Returns NULL on failure, with
   *code set. */
tuff_device *cli_open_device(const cli_verb *verb, const char *name, int *code);

/* Formats a number of bytes: "12.3 MiB". Returns buffer. */
const char *cli_bytes(uint64_t bytes, char *buffer, size_t size);
#define BYTES_TEXT(bytes) cli_bytes((bytes), (char[32]){0}, 32)

/* Prints a JSON string with its quotes. */
void cli_print_json_text(const char *source);
/* Prints a member of a JSON object with a string as its value, then `end`. */
void cli_print_json_member(const char *name, const char *value, const char *end);

/* After cli_catch_interrupt, cli_is_interrupted returns true once the user has pressed Ctrl-C. A second Ctrl-C kills
   the process. */
void cli_catch_interrupt(void);
bool cli_is_interrupted(void);
/* Between these two calls Ctrl-C and SIGTERM are deferred. */
void cli_hold_interrupt(void);
void cli_release_interrupt(void);
/* Whether stderr is a terminal that understands carriage returns. */
bool cli_is_terminal(void);

#endif
