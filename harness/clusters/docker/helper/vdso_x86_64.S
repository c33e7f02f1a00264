# What the three functions of the vDSO that tell the wall clock are replaced by, in one process, by vdso.py.
#
# Every reading is ONE true reading, from the kernel, through one function:
#
#     skewed = true + offset + rate * (true - base)            in ns since 1970, rate in 2^-32
#
# so that clock_gettime, gettimeofday and time agree, and the clock of a process never steps back by itself while
# rate > -1. The time that has passed is measured on the true wall clock, not on CLOCK_MONOTONIC: two readings could have
# a preemption between them, which would show as a jump, and CLOCK_MONOTONIC differs between time namespaces, so that
# `base`, written from the helper's, could be off by days in the target's.
#
# These are ordinary C functions: rbx, rbp, r12-r15 stay untouched. Go calls them on a stack of its own, so the stack is
# used little: 24 bytes and the red zone. After assembling, vdso.py holds the bytes; tests/helper compares the two.

        .intel_syntax noprefix
        .text

        .set    SYS_GETTIMEOFDAY, 96
        .set    SYS_CLOCK_GETTIME, 228
        .set    REALTIME, 0
        .set    REALTIME_COARSE, 5
        .set    BILLION, 1000000000

clock_gettime:                          # (edi: clock, rsi: struct timespec *)
        cmp     edi, REALTIME_COARSE
        je      1f
        test    edi, edi
        jz      1f
        mov     eax, SYS_CLOCK_GETTIME  # every other clock stays true
        syscall
        ret
1:      push    rsi
        call    now
        pop     rdi
        jc      2f
        mov     [rdi], rax
        mov     [rdi + 8], rdx
        xor     eax, eax
2:      ret

gettimeofday:                           # (rdi: struct timeval * or NULL, rsi: struct timezone * or NULL)
        test    rdi, rdi
        jz      1f
        push    rsi
        push    rdi
        xor     edi, edi
        call    now
        pop     rdi
        pop     rsi
        jc      2f
        mov     [rdi], rax
        mov     eax, edx
        xor     edx, edx
        mov     ecx, 1000
        div     ecx
        mov     [rdi + 8], rax
1:      xor     eax, eax
        test    rsi, rsi
        jz      2f
        xor     edi, edi                # the time zone alone: the kernel's
        mov     eax, SYS_GETTIMEOFDAY
        syscall
2:      ret

time:                                   # (rdi: time_t * or NULL)
        push    rdi
        xor     edi, edi
        call    now
        pop     rdi
        jc      1f
        test    rdi, rdi
        jz      1f
        mov     [rdi], rax
1:      ret

# edi: clock. Returns rax: seconds, rdx: nanoseconds in 0..999999999, carry clear; or carry set and rax: -errno, which
# only a seccomp filter can cause. Keeps rdi, rbx, rbp, r12-r15.
now:
        lea     rsi, [rsp - 16]
        mov     eax, SYS_CLOCK_GETTIME
        syscall
        test    rax, rax
        jnz     3f
        imul    rax, [rsp - 16], BILLION
        add     rax, [rsp - 8]
# Three numbers cannot be replaced in one write. The mover fills the block that is not in use and then adds one to
# `generation`, whose lowest bit names the block in use: one byte, so no reader sees half of it. A reader that slept
# meanwhile finds another generation and reads again. (With a sequence lock, a mover that dies between its two writes
# would leave all threads of the target spinning for ever; here they keep the old clock.)
1:      movzx   r8d, byte ptr [rip + generation]
        mov     edx, r8d
        and     edx, 1
        shl     edx, 5
        lea     r9, [rip + blocks]
        add     r9, rdx
        mov     r10, [r9]               # offset
        mov     r11, [r9 + 8]           # rate
        mov     rcx, [r9 + 16]          # base
        cmp     r8b, byte ptr [rip + generation]
        jne     1b
        add     r10, rax
        sub     rax, rcx
        imul    r11                     # rdx:rax, for ns * 2^32 leaves 64 bits after two seconds
        shrd    rax, rdx, 32
        add     rax, r10
        cqo
        mov     ecx, BILLION
        idiv    rcx
        test    rdx, rdx
        jns     2f
        add     rdx, rcx                # idiv rounds to zero; before 1970 the nanoseconds must still be positive
        dec     rax
2:      clc
        ret
3:      stc
        ret

        .balign 8
generation:
        .quad   0
blocks:
        .fill   8, 8, 0                 # two of: offset, rate, base, unused
end:
