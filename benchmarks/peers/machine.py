"""What a result must say about the machine it was measured on. Linux, standard library only."""

import os
import pathlib
import platform

# The flags that decide which kernels a library picks, in the order in which they appeared.
ISA_FLAGS = [
    "avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
    "asimd", "sve", "bf16",
]  # fmt: skip


def describe():
    """{cpu, cores, isa, memory_gb, kernel, load}: cores are those that this process may use."""
    info = cpu_info()
    flags = set((info.get("flags") or info.get("Features") or "").split())
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": info.get("model name", platform.machine()),
        "family": f"family {info['cpu family']} model {info['model']}" if "cpu family" in info else "",
        "cores": len(os.sched_getaffinity(0)),
        "isa": [flag for flag in ISA_FLAGS if flag in flags],
        "memory_gb": round(pages / 1e9, 1),
        "kernel": platform.release(),
        "load": os.getloadavg()[0],
    }


def cpu_info():
    """Key and value of the first processor in /proc/cpuinfo."""
    first = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, value in pairs}


def line(machine):
    """One line for people."""
    name = " ".join(part for part in (machine["cpu"], machine["family"]) if part)
    return (
        f"{machine['cores']} cores, {name}, {' '.join(machine['isa'])}, {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}, load {machine['load']:.2f} at the start"
    )


def busy_seconds():
    """CPU seconds that the whole machine has worked since it started (all but idle and waiting for I/O)."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields)
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
