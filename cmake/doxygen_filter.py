#!/usr/bin/env python3
"""Prints a public header in the form that Doxygen needs: its plain comments become documentation comments.

The first comment describes the file. A comment on lines of its own belongs to the declaration below it, and to the
declarations that follow without a blank line or a comment of their own. A comment after a declaration on the same line
belongs to that declaration. A member without a comment is covered by the comment of its type, and vice versa. Comments
are plain text: characters that Doxygen would read as a command are escaped. Usage: doxygen_filter.py HEADER"""
import re
import sys

MEMBER, TYPE = "/** See the type. */", "/** See the members. */"
SEVERAL = re.compile(r"(\s+)([\w ]*\w) ((?:\**\w+(?:\[\w+\])?, )+\**\w+(?:\[\w+\])?);\s*")
OPEN_TYPE = re.compile(r"typedef (struct|enum) \w+ \{")
NO_DECLARATION = ("}", "extern", "#if", "#else", "#endif", "#undef", "#include")


def documentation(text, mark):
    """Returns the comment's text after /mark, escaped."""
    return "/" + mark + " " + re.sub(r"([\\@#%<>&$])", r"\\\1", text.strip()[2:-2].strip()) + " */"


class Filter:
    def __init__(self, source):
        self.lines = source.split("\n")
        self.at = 0
        self.out = []
        self.shared = None     # the comment for declarations without their own
        self.goes_on = False   # whether the declaration of the last line continues
        self.in_macro = False
        self.depth = 0         # of parentheses

    def next_line(self):
        """Returns the next line, or several lines if a comment spans them."""
        line = self.lines[self.at]
        while "/*" in line and line.rfind("*/") < line.rfind("/*") and self.at + 1 < len(self.lines):
            self.at += 1
            line += "\n" + self.lines[self.at]
        self.at += 1
        return line

    def declare(self, line):
        """Handles a line of code: adds its comment or the shared one, and splits several declarators into separate
        lines."""
        code, has_own, rest = line.partition("/*")
        word = code.strip()
        own = documentation("/*" + rest, "**<") if has_own else ""
        several = SEVERAL.fullmatch(code)
        if several:
            behind = own or (self.shared or MEMBER).replace("/**", "/**<", 1)
            self.out += [f"{several[1]}{several[2]} {name}; {behind}" for name in several[3].split(", ")]
            return word
        if not self.goes_on and word not in ("", "{", "}") and not word.startswith(NO_DECLARATION):
            if not self.shared and OPEN_TYPE.match(word):
                self.out.append(TYPE)
            elif self.shared and not has_own:
                self.out.append(self.shared)
        self.out.append(code + own if has_own else line)
        return word

    def code(self, line):
        word = self.declare(line)
        if word.endswith("{"):
            self.shared = MEMBER
        elif word.startswith("}"):
            self.shared = None
        is_macro = word.startswith("#") or self.in_macro
        self.in_macro = is_macro and line.endswith("\\")
        self.depth += word.count("(") - word.count(")")
        ends = not word or is_macro or word.endswith((";", ",", "{", "}"))
        self.goes_on = self.in_macro or self.depth > 0 or not ends

    def run(self):
        is_first = True
        while self.at < len(self.lines):
            line = self.next_line()
            if self.goes_on or not line.lstrip().startswith("/*") and line.strip():
                self.code(line)
            elif line.strip() and is_first:
                self.out.append(documentation(line, "**").replace("/**", "/** \\file\n", 1))
                is_first = False
            elif line.strip():
                self.shared = documentation(line, "**")
            else:
                self.shared = MEMBER if self.shared == MEMBER else None
                self.out.append(line)
        return "\n".join(self.out)


with open(sys.argv[1], encoding="utf-8") as header:
    sys.stdout.write(Filter(header.read()).run())
