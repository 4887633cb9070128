// printf, assert, exit, __trap and clocks.
#pragma once
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

// The kernel library's own printf: hidden, so the process keeps the C library's. As CUDA's, it returns the number of
// arguments, here by counting conversions, and -1 without a format.
extern "C" __attribute__((format(printf, 1, 2))) inline int printf(const char* format, ...) {
    if (!format) return -1;
    char text[1024];
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    const int bytes = vsnprintf(text, sizeof text, format, arguments);
    if (bytes >= int(sizeof text)) {
        char* longer = static_cast<char*>(malloc(size_t(bytes) + 1));
        vsnprintf(longer, size_t(bytes) + 1, format, again);
        kernels::self.runtime->services->print(longer, size_t(bytes));
        free(longer);
    } else if (bytes > 0) {
        kernels::self.runtime->services->print(text, size_t(bytes));
    }
    va_end(again);
    va_end(arguments);
    int conversions = 0;
    for (const char* at = format; *at; ++at)
        if (*at == '%' && *++at != '%') ++conversions;
        else if (!*at) break;
    return bytes < 0 ? -2 : conversions;
}

namespace kernels {
[[noreturn]] inline void fail(const char* what, Site site) {
    self.runtime->services->fail(what, site);
    __builtin_unreachable();
}
[[noreturn]] inline void fail(const char* name, const char* what, Site site) {
    char text[160];
    snprintf(text, sizeof text, "%s%s", name, what);
    fail(text, site);
}
}  // namespace kernels

[[noreturn]] inline void __trap(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
    kernels::fail("__trap()", {file, line});
}
[[noreturn]] inline void __brkpt(int line = __builtin_LINE(), const char* file = __builtin_FILE()) {
    kernels::fail("__brkpt()", {file, line});
}

// A process is not a kernel's to end. The library's own, as printf.
extern "C" inline void exit(int) noexcept {
    kernels::fail("exit(), which would end the whole process (a thread ends by return),", {});
}
extern "C" inline void abort() noexcept {
    kernels::fail("abort(), which would end the whole process (a kernel fails by __trap()),", {});
}

// As with NVRTC, without an #include.
#ifdef NDEBUG
#define assert(...) ((void)0)
#else
#define assert(...) ((__VA_ARGS__) ? (void)0 : ::kernels::fail("assertion `" #__VA_ARGS__ "` failed", {__FILE__, __LINE__}))
#endif

// Nanoseconds. A GPU's count cycles of a multiprocessor: only differences mean something on either.
inline long long clock64() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}
extern "C" inline clock_t clock() noexcept { return clock_t(clock64()); }
