/* What the verbs share on the command line: options as a table, messages, exit codes, opening a device. */
#ifndef TUFF_TOOLS_CLI_CLI_H
#define TUFF_TOOLS_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "tuff.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_WRONG_USE = 2 };

typedef enum cli_kind { CLI_TEXT, CLI_TEXTS, CLI_WHOLE, CLI_BYTES, CLI_NUMBER, CLI_CHOICE, CLI_SWITCH } cli_kind;

/* Values of an option that may be given several times. */
typedef struct cli_texts {
    const char **items; /* freed by cli_texts_free */
    int count, capacity;
} cli_texts;
void cli_texts_free(cli_texts *texts);

/* One option, as a row of a verb's table. value points to: const char * for CLI_TEXT, cli_texts for CLI_TEXTS,
   int64_t for CLI_WHOLE and CLI_BYTES (a number, perhaps with K, M or G for powers of 1024), double for CLI_NUMBER, int
   (the index of the choice) for CLI_CHOICE, bool for CLI_SWITCH. Its value before parsing is the default. given, where
   not NULL, tells whether the option was there. */
typedef struct cli_option {
    const char *name; /* "--steps" */
    cli_kind kind;
    void *value;
    const char *placeholder; /* "N"; for CLI_CHOICE the choices, "on|off" */
    const char *help;
    double low, high; /* of CLI_WHOLE, CLI_BYTES and CLI_NUMBER, both legal */
    bool *given;
} cli_option;

typedef struct cli_verb {
    const char *name;                        /* "cache list" where it is a verb of `tuff cache` */
    const char *operand;                     /* "[NAME]"; NULL where there is none */
    const char *summary;                     /* one line for the list of verbs; NULL: not listed, no verb for people */
    const char *about;                       /* a paragraph for --help, or NULL */
    int (*run)(int count, char **arguments); /* without the verb's name; returns an exit code */
    bool repeats;                            /* runs one plan many times: the others ignore TUFF_TUNE_BACKGROUND */
    const char *program;                     /* NULL: "tuff" */
} cli_verb;

/* A program that has verbs, or a verb that has verbs below it. */
typedef struct cli_group {
    const char *name;    /* "tuff cache" */
    const char *summary; /* a line, or NULL */
    const char *about;   /* what stands below the list of verbs; ends with a newline */
    const cli_verb *const *verbs;
    int verb_count;
} cli_group;

/* The verb whose last word is name; NULL where there is none. */
const cli_verb *cli_find_verb(const cli_group *group, const char *name);
/* The usage and the list of verbs. */
void cli_print_verbs(const cli_group *group, FILE *out);
/* Hands the arguments behind the first one to the verb that it names. Without such a verb prints a message and the list
   and returns EXIT_WRONG_USE; with --help prints the list. */
int cli_run_verb(const cli_group *group, int count, char **arguments);

/* The result of parsing: go on, or end with this exit code (--help was printed, or a message). */
typedef struct cli_end {
    bool now;
    int code;
} cli_end;

/* Parses arguments by the table. operand receives the verb's one operand and may be NULL. */
cli_end cli_parse(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                  const char **operand);
/* The same for a verb with any number of operands. */
cli_end cli_parse_all(const cli_verb *verb, const cli_option *options, int option_count, int count, char **arguments,
                      cli_texts *operands);

/* "tuff VERB: " and the text on the error stream; returns the code. */
int cli_fail(const cli_verb *verb, int code, const char *format, ...);
/* The same with the library's last message behind what. Returns EXIT_FAILED. */
int cli_fail_library(const cli_verb *verb, const char *subject);

/* Prints what the library warns of on the error stream. */
void cli_show_warnings(void);

/* Opens a device or says why not, and what to install where there is none. NULL on failure, with *code set. */
tuff_device *cli_open_device(const cli_verb *verb, const char *name, int *code);

/* A count of bytes for people: "12.3 MiB". Returns buffer. */
const char *cli_bytes(uint64_t bytes, char *buffer, size_t size);
#define BYTES_TEXT(bytes) cli_bytes((bytes), (char[32]){0}, 32)

/* Text as a JSON string with its quotes; bytes that are no printable ASCII are escaped. */
void cli_print_json_text(const char *text);

/* True once the user pressed Ctrl-C after cli_catch_interrupt. A second Ctrl-C ends the process. */
void cli_catch_interrupt(void);
bool cli_is_interrupted(void);
/* Ctrl-C and the like have no effect between these, but afterwards. */
void cli_hold_interrupt(void);
void cli_release_interrupt(void);
/* True where the error stream is a terminal that understands carriage returns. */
bool cli_is_terminal(void);

#endif
