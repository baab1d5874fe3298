"""The compilers of GPU vendors, for tools/check-vendors and tools/check-loops. Missing ones are unpacked next to the
results, from packages of the system or of Python. They are never installed, because some of these packages would add a
driver to every program on the machine."""
import glob
import os
import re
import shutil
import subprocess
import sys
import zipfile

MAX_SECONDS = 600
NARROWEST_SUBGROUP = {"dg2": 8, "pvc": 16}  # as the driver reports it to the library
CLANG_PACKAGES = ("clang-19", "libclang-cpp19", "libllvm19", "libclang-common-19-dev", "libclc-19")
OCLOC_PACKAGES = ("intel-opencl-icd", "libigc1", "libigdfcl1", "libopencl-clang14")
CLANG_OPTIONS = ["-x", "cl", "-cl-std=CL1.2", "-D__OPENCL_VERSION__=120", "-cl-no-stdinc", "-Xclang",
                 "-finclude-default-header", "-Xclang", "-fdeclare-opencl-builtins", "-Xclang", "-cl-ext=+cl_khr_fp16",
                 "-nogpulib", "-w", "-O3"]
NVIDIA_MACROS = ["-DFP_FAST_FMAF", "-D__NV_CL_C_VERSION=120"]  # as NVIDIA's own compiler defines them


class Missing(Exception):
    """A compiler is missing."""


def run(command, **options):
    """Returns the exit code and all output. A program that does not end in MAX_SECONDS fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=MAX_SECONDS, **options)
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace")
    return done.returncode, done.stdout


def number(pattern, text, default=0):
    found = re.search(pattern, text)
    return int(found.group(1)) if found else default


def complaint_of(text):
    """The line that says what went wrong: the first error, else the first line. Never empty."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return ([line for line in lines if "error" in line] + lines + ["no output"])[0][:200]


def unpack_debian(packages, into):
    """Unpacks in a folder those packages that the system can download."""
    if os.path.isdir(os.path.join(into, "usr")):
        return
    os.makedirs(into, exist_ok=True)
    if shutil.which("apt-get") and shutil.which("dpkg"):
        for package in packages:
            run(["apt-get", "download", package], cwd=into)
        for package in glob.glob(os.path.join(into, "*.deb")):
            run(["dpkg", "-x", package, into])
            os.remove(package)


def with_libraries(unpacked, program):
    folders = glob.glob(os.path.join(unpacked, "usr/lib/*-linux-gnu")) + glob.glob(
        os.path.join(unpacked, "usr/lib/llvm-*/lib"))
    return ["env", "LD_LIBRARY_PATH=" + ":".join(folders), program]


def find_ocloc(folder):
    if shutil.which("ocloc"):
        return ["ocloc"]
    unpacked = os.path.abspath(os.path.join(folder, "ocloc"))
    unpack_debian(OCLOC_PACKAGES, unpacked)
    program = os.path.join(unpacked, "usr/bin/ocloc")
    if not os.path.exists(program):
        raise Missing("ocloc not found, and its package (intel-opencl-icd) cannot be downloaded")
    for library in glob.glob(os.path.join(unpacked, "usr/lib/*/libiga64.so.*")):
        plain = library.split(".so")[0] + ".so"
        if not os.path.exists(plain):  # ocloc looks for its disassembler under this name
            os.symlink(os.path.basename(library), plain)
    return with_libraries(unpacked, program)


class Clang:
    """Clang and the libclc of the same version."""

    def __init__(self, folder):
        self.unpacked = os.path.abspath(os.path.join(folder, "clang"))
        self.command = ["clang-19"]
        if not shutil.which("clang-19"):
            unpack_debian(CLANG_PACKAGES, self.unpacked)
            program = os.path.join(self.unpacked, "usr/lib/llvm-19/bin/clang")
            self.command = with_libraries(self.unpacked, program) if os.path.exists(program) else ["clang"]
        if self.command == ["clang"] and not shutil.which("clang"):
            raise Missing("clang not found, and its package (clang-19) cannot be downloaded")
        self.version = complaint_of(run(self.command + ["--version"])[1])

    def library(self, triple):
        folders = glob.glob(os.path.join(self.unpacked, "usr/lib/clc"))
        folders += ["/usr/lib/clc", "/usr/share/clc"] + glob.glob("/usr/lib/llvm-*/share/clc")
        for folder in folders:
            path = os.path.join(folder, triple + ".bc")
            if os.path.exists(path):
                return ["-Xclang", "-mlink-builtin-bitcode", "-Xclang", path]
        raise Missing("%s.bc of libclc not found (package libclc-19)" % triple)

    def compile(self, text, triple, target, into):
        """Compiles to assembly. Returns the exit code and the output."""
        of_target = ["-mcpu=" + target]
        if triple.startswith("nvptx"):
            of_target = ["-Xclang", "-target-cpu", "-Xclang", target] + NVIDIA_MACROS
        return run(self.command + CLANG_OPTIONS + self.library(triple) + ["-target", triple] + of_target +
                   ["-S", "-o", into, text])


def show_hidden(ptx):
    """Uncomments the instructions that a kernel's text hides in comments, as src/device/opencl/program.c does. PTX that
    has such instructions is for sm_90a."""
    with open(ptx, encoding="utf-8") as file:
        text = file.read()
    if "//@" in text:
        with open(ptx, "w", encoding="utf-8") as file:
            file.write(re.sub(r"\.target sm_\d+", ".target sm_90a", text.replace("//@", "")))


def find_cuda(name):
    for program in [shutil.which(name)] + glob.glob("/usr/local/cuda*/bin/" + name):
        if program:
            return program
    return None


NO_DEVICE = 77  # exit code of vendor_kernels


def report_missing(name, why, wanted):
    """Reports a compiler that is missing; ends the program if it was asked for."""
    if name in wanted:
        sys.exit("%s is missing: %s" % (name, why))
    print("skipping %s: %s" % (name, why))


def write_vendor_kernels(build, folder, vendor, devices, *source):
    """Empties the folder and lets vendor_kernels write kernels there, in the language of the first device that exists.
    Returns the fields of the lines that it prints, one for each kernel. source: a family, or what else it takes."""
    program = os.path.join(build, "vendor_kernels")
    if not os.path.exists(program):
        raise Missing("vendor_kernels is not built")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for device in devices:
        code, output = run([program, folder, device, vendor, *source])
        if code == 0:
            return [line.split("\t") for line in output.splitlines()]
        if code != NO_DEVICE:
            sys.exit("vendor_kernels cannot write kernels for %s: %s" % (vendor, complaint_of(output)))
    raise Missing(complaint_of(output))


def ptxas_options(text):
    """As src/device/opencl builds the kernel."""
    return ["--maxrregcount=128"] if "#define FEW_REGISTERS\n" in text else []


def find_ptxas():
    program = find_cuda("ptxas")
    if program is None:
        raise Missing("ptxas not found (part of the CUDA toolkit)")
    return program


def find_nvdisasm(folder):
    program = find_cuda("nvdisasm")
    unpacked = os.path.abspath(os.path.join(folder, "nvdisasm"))
    if program is None and not os.path.isdir(unpacked):
        os.makedirs(unpacked)
        run(["python3", "-m", "pip", "download", "-q", "--no-deps", "-d", unpacked, "nvidia-cuda-nvdisasm"])
        for wheel in glob.glob(os.path.join(unpacked, "*.whl")):
            with zipfile.ZipFile(wheel) as file:
                file.extractall(unpacked)
            os.remove(wheel)
    for found in [program] if program else glob.glob(os.path.join(unpacked, "**/bin/nvdisasm"), recursive=True):
        if not program:
            os.chmod(found, 0o755)
        return found
    raise Missing("nvdisasm not found (part of the CUDA toolkit)")


def radv_environment(family, **more):
    drivers = glob.glob("/usr/share/vulkan/icd.d/radeon_icd*.json")
    if not drivers:
        raise Missing("RADV not found (package mesa-vulkan-drivers)")
    return dict(os.environ, VK_ICD_FILENAMES=drivers[0], VK_DRIVER_FILES=drivers[0], RADV_FORCE_FAMILY=family,
                MESA_SHADER_CACHE_DISABLE="1", **more)
