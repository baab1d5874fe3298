#!/usr/bin/env python3
"""Checks the documents: README.md, docs/*.md and the README.md files of the folders.

- A block marked ```c is a program, a list of declarations and functions, or the body of a function whose parameters
  are the objects that the documents discuss (PARAMETERS). It must compile as C11 without warnings, and ```c cxx as
  C++17, too; ```c internal may include the headers of src/. ```cpp is C++17. A program is linked with the library of
  the build and run on the reference device.
- Lines of a ```sh block that begin with build/tuff are run, on a model that is as small as possible (cheaper); all
  options must be the verb's own. The programs of other lines must exist if they are in this repository.
- Relative links lead to existing files and headings. Paths in backticks exist; functions and environment variables in
  backticks occur in the sources.

Usage: documents.py SOURCE BUILD. Prints each fault on a line of its own; exits with 1 if there are any."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

TOP_FOLDERS = ("src", "include", "tools", "tests", "docs", "bench", "cmake", "examples", "cl", "shaders", "share")
PARAMETERS = """
    tuff_device *device, tuff_graph *graph, tuff_plan *plan, tuff_tensor *x, tuff_tensor *y, tuff_tensor *w,
    tuff_tensor *b, tuff_tensor *loss, tuff_parameters *parameters, tuff_optimizer *optimizer, tuff_array *array"""
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wno-unused", "-Werror"]
TINY_MODEL = "--layers 1 --heads 1 --width 16 --context 16 --batch 1"


class Block:
    """A fenced block: the words after the fence, its text, and its first line."""

    def __init__(self, words, text, line):
        self.words, self.text, self.line = words, text, line


def split(text):
    """Returns the fenced blocks of a document, and its prose with them blanked out, so that line numbers stay."""
    blocks, prose, fence = [], [], None
    for number, line in enumerate(text.split("\n"), 1):
        is_fence = line.lstrip().startswith("```")
        if fence is None and is_fence:
            fence = Block(line.lstrip()[3:].split(), "", number)
            indentation = len(line) - len(line.lstrip())
            prose.append("")
        elif fence is not None and is_fence:
            blocks.append(fence)
            fence = None
            prose.append("")
        elif fence is not None:
            fence.text += line[indentation:] + "\n"
            prose.append("")
        else:
            prose.append(line)
    return blocks, "\n".join(prose)


def anchor(heading):
    """Returns the anchor of a heading."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


class Checker:
    def __init__(self, source, build):
        self.source, self.build = source, build
        self.faults = []
        self.work = pathlib.Path(tempfile.mkdtemp())
        self.tool = build / "tuff"
        self.counts = {"snippets": 0, "commands": 0, "names": 0, "links": 0}
        self.device = None
        self.key = None

    def fault(self, place, text):
        self.faults.append(f"{place}: {text}")

    # C and C++

    def compile(self, place, block, plus_plus):
        code, extra = block.text, ["-I", str(self.source / "include")]
        if "internal" in block.words:
            extra += ["-I", str(self.source / "src")]
        includes = "".join(line + "\n" for line in code.split("\n") if line.startswith("#include"))
        rest = "".join("\n" if line.startswith("#include") else line + "\n" for line in code.split("\n"))
        is_file = re.search(r"^\w.*\)[^;\n]*\n\{", rest, re.M) or re.search(r"^(static const|typedef) ", rest, re.M)
        if not is_file:
            rest = f"static inline int snippet({PARAMETERS})\n{{\n{{\n{rest}}}\nreturn 0;\n}}\n"
        text = f"#include <stdio.h>\n#include <tuff.h>\n{includes}{rest}"
        name = self.work / ("snippet.cpp" if plus_plus else "snippet.c")
        name.write_text(text)
        compiler = os.environ.get("CXX", "c++") if plus_plus else os.environ.get("CC", "cc")
        command = [compiler, "-std=c++17" if plus_plus else "-std=c11", *WARNINGS, *extra]
        self.counts["snippets"] += 1
        done = subprocess.run([*command, "-fsyntax-only", str(name)], capture_output=True, text=True)
        if done.returncode != 0:
            self.fault(place, f"cannot be compiled as {'C++' if plus_plus else 'C'}:\n{done.stderr.strip()[:1500]}")
        elif "int main(" in code and not plus_plus:
            self.run_program(place, command, name)

    def run_program(self, place, command, name):
        """Links and runs a program, if the library was built."""
        libraries = [self.build / file for file in ("libtuff.a", "libtuff_internal.a")]
        library = next((str(one) for one in libraries if one.exists()), None)
        if library is None or not (self.build / "tuff.pc").exists():
            return
        words = re.search(r"^Libs: (.*)$", (self.build / "tuff.pc").read_text(), re.M).group(1)
        linked = [word for word in shlex.split(words) if word != "-ltuff" and "${" not in word]
        made = subprocess.run([*command, str(name), library, *linked, "-o", str(self.work / "program")],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.fault(place, f"cannot be linked:\n{made.stderr.strip()[:1500]}")
            return
        done = subprocess.run([str(self.work / "program")], capture_output=True, text=True, cwd=self.work,
                              env=dict(os.environ, TUFF_DEVICE="reference"))
        if done.returncode != 0:
            self.fault(place, f"exited with {done.returncode}: {done.stdout}{done.stderr}")

    # Commands

    def prepare(self):
        """Prepares a folder with the files that commands read, a device, and a key of a cache of shipped records."""
        share = sorted((self.source / "share/tuff/tune").glob("*.jsonl"), key=lambda file: file.stat().st_size)
        cache = self.work / "cache"
        cache.mkdir(mode=0o700)
        self.environment = dict(os.environ, TUFF_CACHE_DIR=str(cache), TUFF_SHARE_DIR=str(self.work))
        # Compiled programs of other tests; compiling takes most of the time.
        for program in pathlib.Path(os.environ.get("TUFF_CACHE_DIR", "nowhere")).glob("*.program"):
            shutil.copy(program, cache)
        for name in ("TUFF_TUNE", "TUFF_DEVICE"):
            self.environment.pop(name, None)
        os.symlink(self.build, self.work / "build")
        (self.work / "book.txt").write_text("The licensed work is that which the licensee may copy.\n" * 80)
        self.has_tuner = re.search(r"^  tune ", self.tool_output("--help"), re.M) is not None
        listed = self.tool_output("devices", "--json")
        found = re.findall(r'"selector": "([^"]*)".*"class": "([^"]*)"', listed)
        # Of CPU drivers those for Vulkan, listed last, compile a training step several times as fast as those for
        # OpenCL.
        gpus = [one for one, kind in found if kind not in ("cpu", "reference")]
        last = [one for one, kind in found if kind == "cpu"][-1:]
        self.device = (gpus + last + ["reference"])[0]
        self.tool_output("train", "--data", "book.txt", "--save", "gpt.safetensors", "--steps", "1", "--sample", "0",
                         *TINY_MODEL.split(), "--device", "reference")
        if share:
            self.tool_output("cache", "import", str(share[-1]))
            shown = self.tool_output("cache", "show", "--op", "matmul*", "--json")
            found = re.search(r'"(?:digits|key)": "(\w{32})"', shown)
            self.key = found.group(1) if found else None
            for name in ("winners.jsonl", "tuned.jsonl", "a", "b"):
                self.tool_output("cache", "export", name)

    def tool_output(self, *arguments):
        done = subprocess.run([str(self.tool), *arguments], capture_output=True, text=True, cwd=self.work,
                              env=self.environment)
        if done.returncode not in (0, 1):
            self.fault("documents.py", f"tuff {' '.join(arguments)} exited with {done.returncode}: {done.stderr}")
        return done.stdout

    def cheaper(self, words):
        """Returns the command with options that make it short, the last of which count; None if it cannot run here."""
        verb = words[0]
        device = ["--device", self.device]
        is_file = any(word.endswith(".graph") and before != "--save-graph" for before, word in zip(words, words[1:]))
        model = [] if is_file else TINY_MODEL.split()
        if verb == "devices":
            return words
        if verb == "cache":
            if self.key is None:
                return None
            words = [self.key if word == "9f31" else word for word in words]
            return None if "--now" in words or "--rerun" in words else words
        if verb == "train":
            short = [*words, "--steps", "2", "--sample", "0", *TINY_MODEL.split()]
            if "--resume" in words:
                short = [*words, "--steps", "3", "--sample", "0"]
            return short + ([] if self.device == "reference" and "--tune" in words else ["--device", "reference"])
        if verb == "doctor":
            return [*words, "--seconds", "1", "--device", "reference"]
        if verb == "bench":
            # Of all that is compared, the reference device has only times of its own. Nothing is tuned there.
            plain = [word for word in words if word != "--tune"]
            return [*plain, "--quick", "--rounds", "1", "--device", "reference"]
        if verb == "generate":
            return [*words, "--tokens", "2", "--device", "reference"]
        if verb == "verify":
            few = ["--programs", "2"] if "--programs" in words else []
            has_op = len(words) > 1 and not words[1].startswith("-")
            return [*words, *few, "--device", "reference", *([] if few or has_op or "--program" in words else ["neg"])]
        if verb == "kernel" and self.device != "reference":
            return [*words, *device]
        if verb == "plan" and self.device != "reference":
            return [*words, *model, *device, "--tune-budget", "0.1"]
        if verb == "profile" and self.device != "reference":
            # A plan for generation has a third of the kernels that a training step has.
            plan = [] if is_file or "--optimizer" in words else ["--plan", "generate"]
            return [*words, *model, *device, *plan, "--runs", "1", "--tune-budget", "0.1"]
        if verb == "tune" and self.device != "reference":
            short = [*words, *model, *device]
            return short + (["--tune-budget", "0.1"] if words[1:2] == ["warm"] else [])
        return None

    def options_are_known(self, place, words):
        verb = words[:2] if words[0] in ("cache", "tune") else words[:1]
        text = self.tool_output(*verb, "--help")
        for word in words:
            option = word.split("=")[0]
            if option.startswith("--") and f"  {option} " not in text and option != "--help":
                self.fault(place, f"unknown option of tuff {' '.join(verb)}: {option}")

    def run_command(self, place, words):
        # A tool built without the tuner (TUFF_AUTOTUNE=OFF) lacks its verb and its options.
        if not self.has_tuner and (words[0] == "tune" or {"--tune", "--lock-manifest"} & set(words)):
            return
        self.options_are_known(place, words)
        short = self.cheaper(words)
        if short is None:
            return
        self.counts["commands"] += 1
        # The output of a byte-level model need not be valid text.
        done = subprocess.run([str(self.tool), *short], capture_output=True, text=True, errors="replace", cwd=self.work,
                              env=self.environment, timeout=600)
        allowed = (0, 1) if short[0] == "cache" else (0,)
        if done.returncode not in allowed:
            text = (done.stderr or done.stdout)[:600]
            self.fault(place, f"tuff {' '.join(short)} exited with {done.returncode}: {text}")

    def check_shell(self, place, block):
        text = block.text.replace("\\\n", " ")
        for line in text.split("\n"):
            words = shlex.split(line, comments=True)
            while words and re.match(r"[A-Z_]+=", words[0]):
                self.check_name(place, words[0].split("=")[0])
                words = words[1:]
            if words[:1] == ["build/tuff"] and len(words) > 1:
                self.run_command(place, words[1:])
            elif words and words[0].split("/")[0] in TOP_FOLDERS and not (self.source / words[0]).exists():
                self.fault(place, f"no such program: {words[0]}")

    # Names and links

    def sources(self):
        """Returns all text in which a name counts as known."""
        if not hasattr(self, "known"):
            text = []
            for folder in ("include", "src", "tools", "cmake", "tests", "bench", "examples"):
                for file in (self.source / folder).rglob("*"):
                    if file.is_file() and file.suffix not in (".md", ".jsonl") and file.name != "documents.py":
                        text.append(file.read_text(errors="replace"))
            text.append((self.source / "CMakeLists.txt").read_text())
            self.known = set(re.findall(r"\w+", "\n".join(text)))
        return self.known

    def check_name(self, place, name):
        self.counts["names"] += 1
        if name.startswith(("tuff_", "tuff__", "TUFF_")) and name not in self.sources():
            self.fault(place, f"unknown name: {name}")

    def check_identifier(self, place, name):
        """Reports the name of a function, field or variable that no source has."""
        self.counts["names"] += 1
        if name not in self.sources():
            self.fault(place, f"unknown name: {name}")

    @staticmethod
    def pattern(path):
        """Returns a glob pattern for a path, in which NAME stands for any name."""
        return re.sub(r"(?<![A-Z])NAME(?![A-Z])", "*", path).rstrip("/")

    def check_path(self, place, path):
        """Reports a file or folder that does not exist; a test is named without the suffix of its source."""
        self.counts["names"] += 1
        pattern = self.pattern(path)
        is_test = pattern.startswith("tests/") and any(self.source.glob(f"tests/**/{pathlib.Path(pattern).name}.*"))
        if not any(self.source.glob(pattern)) and not is_test:
            self.fault(place, f"no such file or folder: {path}")

    def check_code(self, place, code):
        if code.split("/")[0] in TOP_FOLDERS and re.fullmatch(r"[\w./*-]+", code) and "/" in code:
            self.check_path(place, code)
        elif re.fullmatch(r"[\w-]+\.(c|h|k|def|cl|glsl|cmake)", code):
            self.counts["names"] += 1
            pattern = self.pattern(code)
            if not any(next(self.source.glob(f"{folder}/**/{pattern}"), None) for folder in TOP_FOLDERS):
                self.fault(place, f"no such file: {code}")
        for name in re.findall(r"\b(?:tuff__?|TUFF_)\w+\b", code):
            self.check_name(place, name)
        if re.fullmatch(r"[a-z]\w*_\w+", code) and not code.startswith("tuff_"):
            self.check_identifier(place, code)

    def check_link(self, place, document, target):
        self.counts["links"] += 1
        if re.match(r"\w+:", target):
            return
        path, _, heading = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists():
            self.fault(place, f"broken link: {target}")
        elif heading:
            _, prose = split(file.read_text())
            if heading not in [anchor(one) for one in re.findall(r"^#+ (.*)$", prose, re.M)]:
                self.fault(place, f"{path or document.name} has no heading {heading}")

    def check_prose(self, document, name, prose):
        """Code in backticks may continue in the next line."""
        def visit(pattern, use):
            for match in re.finditer(pattern, prose):
                use(f"{name}:{prose.count(chr(10), 0, match.start()) + 1}", " ".join(match.group(1).split()))

        visit(r"\]\(([^)\s]+)\)", lambda place, target: self.check_link(place, document, target))
        visit(r"`([^`]+)`", self.check_code)

    def check(self, document, name):
        blocks, prose = split(document.read_text())
        self.check_prose(document, name, prose)
        for block in blocks:
            place = f"{name}:{block.line}"
            language = block.words[0] if block.words else ""
            if language == "c":
                self.compile(place, block, False)
            if language == "cpp" or (language == "c" and "cxx" in block.words):
                self.compile(place, block, True)
            if language == "sh" and self.tool.exists():
                self.check_shell(place, block)


FAULTY = """# A document with a fault in every paragraph

[nowhere](nowhere.md), and [no heading](#not-here).

`src/nowhere/at_all.c` and `no_such_file.c` are no files, `tuff_no_such_function`, `tuff__neither()` and `no_such_static` no
functions, `TUFF_NO_SUCH_VARIABLE` no variable.

```c
tuff_no_such_type *wrong;
```

```c cxx
int in_c_alone[1] = {[0] = 1}; tuff_shape shape = (tuff_shape){.extent = {1}, .rank = 1};
```

```c
#include <tuff.h>
int main(void)
{
    return tuff_device_open("nothing of that name") == NULL;
}
```

```sh
tools/no-such-program
build/tuff verify --no-such-option
build/tuff generate --checkpoint nothing.safetensors
```
"""
# Two links, two files, three functions, a variable, two snippets and a program that exits with 1; of the commands a
# program, an option that is neither listed nor accepted, and a file that does not exist.
FAULTS = {"with the tool": 15, "without": 11}


def has_library(checker):
    return any((checker.build / name).exists() for name in ("libtuff.a", "libtuff_internal.a"))


def main():
    source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
    checker = Checker(source, build)
    try:
        if checker.tool.exists():
            checker.prepare()
        faulty = checker.work / "faulty.md"
        faulty.write_text(FAULTY)
        checker.check(faulty, "faulty.md")
        expected = FAULTS["with the tool" if checker.tool.exists() else "without"] - (not has_library(checker))
        if len(checker.faults) != expected:
            print(f"self-test: found {len(checker.faults)} of {expected} faults in a made-up document:")
            print(*checker.faults, sep="\n")
            return 1
        checker.faults, checker.counts = [], dict.fromkeys(checker.counts, 0)
        documents = [source / "README.md", *sorted((source / "docs").glob("*.md"))]
        for folder in ("src", "bench", "tests", "tools", "examples"):
            documents += sorted(file for file in (source / folder).rglob("README.md"))
        for document in documents:
            checker.check(document, str(document.relative_to(source)))
        print(*checker.faults, sep="\n", end="\n" if checker.faults else "")
        print(f"{len(documents)} documents:", ", ".join(f"{count} {what}" for what, count in checker.counts.items()))
        return 1 if checker.faults or not checker.counts["snippets"] else 0
    finally:
        shutil.rmtree(checker.work, ignore_errors=True)


sys.exit(main())
