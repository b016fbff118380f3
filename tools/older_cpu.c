/* Let Python see the instructions of an x86-64 processor with AVX2, without AVX-512 and VNNI, such as Haswell.
 *
 *     cc -shared -fPIC -O1 -o older_cpu.so tools/older_cpu.c
 *     LD_PRELOAD=$PWD/older_cpu.so python ...
 *
 * The kernel makes the instruction CPUID fault, and the handler returns its result without the newer features,
 * so libraries choose the code that they run on such a processor. Everything runs at full speed. The results of
 * ONNX Runtime were equal to the bit to those under `qemu-x86_64 -cpu Haswell`. Needs Linux on an Intel processor
 * that can fault CPUID (Ivy Bridge and later); exits with 77 elsewhere. A handler that Python sets for SIGSEGV
 * (faulthandler, `-X dev`) gets every other fault. Other programs than Python are left alone.
 */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define ARCH_SET_CPUID 0x1012
#define BIT(n) (1u << (n))

/* Leaf 7, subleaf 0: features newer than AVX2, by register. */
#define NEWER_EBX (BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31))      /* AVX-512 */
#define NEWER_ECX (BIT(1) | BIT(6) | BIT(8) | BIT(9) | BIT(10) | BIT(11) | BIT(12) | BIT(14))          /* VBMI, VNNI */
#define NEWER_EDX (BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25))                   /* AMX, FP16 */

static void fault_cpuid(int on) { syscall(SYS_arch_prctl, ARCH_SET_CPUID, !on); }

static int (*set_action)(int, const struct sigaction *, struct sigaction *);
static int faulting;
static struct sigaction wanted; /* what the program set for SIGSEGV; at first the default */

/* Takes the place of the C library's function, so the handler below stays. */
int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
    if (!set_action)
        set_action = dlsym(RTLD_NEXT, "sigaction");
    if (number != SIGSEGV || !faulting)
        return set_action(number, action, before);
    struct sigaction old = wanted;
    if (action)
        wanted = *action;
    if (before)
        *before = old;
    return 0;
}

static void pass_on(int number, siginfo_t *info, void *context) {
    if (wanted.sa_handler == SIG_IGN && info->si_code <= 0) /* sent by a process */
        return;
    if (wanted.sa_handler != SIG_IGN && wanted.sa_handler != SIG_DFL) {
        wanted.sa_sigaction(number, info, context);
        return;
    }
    struct sigaction end = {.sa_handler = SIG_DFL};
    set_action(number, &end, NULL);
    raise(number);
}

/* A fault of CPUID comes from the kernel, without an address: only then is the code at RIP looked at. */
static int at_cpuid(const siginfo_t *info, const greg_t *registers) {
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    return info->si_code == SI_KERNEL && code[0] == 0x0f && code[1] == 0xa2;
}

static void answer_cpuid(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (!at_cpuid(info, registers)) {
        pass_on(number, info, context);
        return;
    }
    unsigned leaf = registers[REG_RAX], subleaf = registers[REG_RCX], a, b, c, d;
    fault_cpuid(0);
    __cpuid_count(leaf, subleaf, a, b, c, d);
    fault_cpuid(1);
    if (leaf == 7 && subleaf == 0) {
        b &= ~NEWER_EBX;
        c &= ~NEWER_ECX;
        d &= ~NEWER_EDX;
    }
    if (leaf == 7 && subleaf == 1) /* AVX-VNNI and later */
        a = b = c = d = 0;
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        return;
    path[length] = 0;
    const char *slash = strrchr(path, '/');
    if (strncmp(slash ? slash + 1 : path, "python", 6) != 0)
        return;
    struct sigaction action = {.sa_sigaction = answer_cpuid, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    faulting = 1;
    if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0) != 0) {
        fputs("this processor or kernel cannot make CPUID fault\n", stderr);
        _exit(77);
    }
}
