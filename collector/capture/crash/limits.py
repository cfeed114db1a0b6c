"""Every bound of the crash path, with its reason. Times in seconds, sizes in bytes."""

# Time. A server's whole note segment arrives within 2 ms of the handler's start; everything of a server with
# 20 threads is read in about 10 ms. The budgets are what a loaded host may cost before a part is given up.
NOTES_SECONDS = 2.0
PART_SECONDS = 0.5  # one part out of /proc
THREADS_SECONDS = 0.5
MEMORY_SECONDS = 2.0
SOCKETS_SECONDS = 0.5  # a host with 100,000 connections answers in 0.3 s
DECIDE_SECONDS = 0.02  # of looking for the server's texts inside a program of another name
DECIDE_HANG_SECONDS = 30.0  # reading the program at all: a hundred crashes at once take 10 s on 2 cores
STALL_SECONDS = 120.0  # one mebibyte of a foreign core, from the kernel into its file
GATHER_SECONDS = 5.0  # everything out of /proc together: notes and memory, which are read last, keep 3 s
HOLD_SECONDS = 8.0  # all of the above together: the process is let go then, whatever is missing
MINIMAL_SECONDS = 30.0  # with writing and syncing; a disk that needs longer is ill
FULL_SECONDS = 300.0  # systemd's RuntimeMaxSec for its own handler

# Memory and processor the handler grants itself once it has decided to keep a crash.
ADDRESS_SPACE = 1 << 30  # it holds what it keeps of the process, at most KEPT_BYTES, twice
CPU_SECONDS = 20
FULL_CPU_SECONDS = 240  # a core of 100 GB is read at 1 to 2 GB/s
OPEN_FILES = 256

# What comes down the pipe.
PROGRAM_HEADERS_BYTES = 8 << 20  # 146,000 segments; vm.max_map_count is 65,530
NOTES_BYTES = 32 << 20  # 4,096 threads with AVX-512 state fill 12 MB; more are cut, the crashing one is first
PIPE_BYTES = 1 << 20  # the most a pipe may hold without a privilege

# What is read in /proc.
TEXT_BYTES = 256 << 10  # one file of /proc
MAPS_BYTES = 8 << 20
DECIDE_MAPS_BYTES = 4 << 20  # a server has 60 to 600 lines of 100 bytes
THREADS = 4096  # llama-server has one per core and HTTP worker
DESCRIPTORS = 4096
SOCKETS = 4096
ROLLUP_RESIDENT = 64 << 30  # smaps_rollup walks every page: about 10 ms per 10 GB with huge pages

# What is kept of the memory.
STACK_BYTES = 8 << 20  # the usual ulimit -s: an endless recursion is kept whole
STACKS_BYTES = 64 << 20
RED_ZONE = 128  # bytes below the stack pointer a leaf function may use (System V ABI)
GUARD_REACH = 1 << 20  # a stack pointer this far below a mapping has overflowed that mapping's stack
SMALL_MAP = 1 << 20  # writable data of libraries, from their files
SMALL_ANONYMOUS = 160 << 10  # .bss and what the linker made; glibc's thread heaps begin at 132 KiB
SMALL_MAPS_BYTES = 32 << 20
POINTED_THREADS = 256  # the crashing one is the first
POINTED_NEAR = 1024  # bytes on both sides of what a register points to
POINTED_BYTES = 8 << 20
THREAD_BLOCK = 4096  # glibc's struct pthread has 2,304 bytes, the thread's own variables stand below it
QUEUE_BEFORE, QUEUE_AFTER = 512, 256  # around a futex: server_queue has its condition at 296 of 400 bytes
MODULES = 2048
MODULE_RANGE = 1 << 20  # RELRO, dynamic section or notes of one module; libcuda's RELRO is the largest seen
LINK_MAPS = 4096
KEPT_BYTES = 128 << 20  # all of it

# The store.
FULL_BYTES = 64 << 30  # of one full core, unless the settings say less
RESERVE = 256 << 20  # free space of the file system that a capture never uses up
STORED = 500  # captures in the store: a crash loop must not fill it; retention keeps fewer
STORED_OF_USER = 250  # of one user's processes: whoever crashes for fun leaves the others half of the places
USER_PART = 2  # and half of the file system
COPY_BYTES = 512 << 20  # of a program whose file is gone; a native server with debug information has 220 MB
TRACE_BYTES = (
    4096  # the breadcrumb's size from the start: its outcome is written in place, on a full disk too
)
