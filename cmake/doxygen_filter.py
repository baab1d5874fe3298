#!/usr/bin/env python3
"""Prints a public header as Doxygen wants it: the headers' plain comments become documentation comments.

The first comment describes the file. A comment on lines of its own belongs to the declaration below it, and to those that follow
without a blank line or a comment of their own; a comment behind a declaration belongs to that. A member that has none is left to
the comment of its type, and the other way round. Comments are plain text: what Doxygen would take for a command is escaped.
Called: doxygen_filter.py HEADER"""
import re
import sys


def documentation(text, mark):
    """A comment's text behind /mark, escaped."""
    return "/" + mark + " " + re.sub(r"([\\@#%<>&$])", r"\\\1", text.strip()[2:-2].strip()) + " */"


MEMBER, TYPE = "/** See the type. */", "/** See the members. */"
SEVERAL = re.compile(r"(\s+)([\w ]*\w) ((?:\**\w+(?:\[\w+\])?, )+\**\w+(?:\[\w+\])?);\s*")


class Filter:
    def __init__(self, source):
        self.lines = source.split("\n")
        self.out = []
        self.shared = None  # the comment that declarations without one get
        self.depth = 0      # of parentheses of a declaration that goes on
        self.goes_on, self.in_macro = False, False
        self.at = 0

    def next_line(self):
        """A line, or several where a comment spans them."""
        line = self.lines[self.at]
        while "/*" in line and line.rfind("*/") < line.rfind("/*") and self.at + 1 < len(self.lines):
            self.at += 1
            line += "\n" + self.lines[self.at]
        self.at += 1
        return line

    def code(self, line):
        code, behind, rest = line.partition("/*")
        word = code.strip()
        begins = not self.goes_on and word not in ("", "{", "}") and not word.startswith(("}", "extern", "#if", "#e", "#un", "#in"))
        own = documentation("/*" + rest, "**<") if behind else ""
        several = SEVERAL.fullmatch(code)
        if begins and not self.shared and re.match(r"typedef (struct|enum) \w+ \{", word):
            self.out.append(TYPE)
        elif begins and self.shared and not behind and not several:
            self.out.append(self.shared)
        if several:
            for name in several[3].split(", "):
                self.out.append(f"{several[1]}{several[2]} {name}; " + (own or (self.shared or MEMBER).replace("/**", "/**<", 1)))
        else:
            self.out.append(code + own if behind else line)
        if word.endswith("{"):
            self.shared = MEMBER
        elif word.startswith("}"):
            self.shared = None
        self.depth += word.count("(") - word.count(")")
        is_macro = word.startswith("#") or self.in_macro
        self.in_macro = is_macro and line.endswith("\\")
        self.goes_on = self.in_macro or self.depth > 0 or \
            bool(word) and not is_macro and not word.endswith((";", ",", "{", "}"))

    def run(self):
        is_first = True
        while self.at < len(self.lines):
            line = self.next_line()
            if self.goes_on:
                self.code(line)
            elif line.lstrip().startswith("/*"):
                text = documentation(line, "**")
                if is_first:
                    self.out.append(text.replace("/**", "/** \\file\n", 1))
                else:
                    self.shared = text
                is_first = False
            elif not line.strip():
                self.shared = MEMBER if self.shared == MEMBER else None
                self.out.append(line)
            else:
                self.code(line)
        return "\n".join(self.out)


with open(sys.argv[1], encoding="utf-8") as header:
    sys.stdout.write(Filter(header.read()).run())
