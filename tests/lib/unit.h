/* What every unit test includes: cmocka in the order that it wants. */
#ifndef PLIM_TESTS_UNIT_H
#define PLIM_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* 1 in a build with AddressSanitizer or ThreadSanitizer. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* How often something random is tried: `n` times, a quarter of them under a sanitizer, which takes four to twenty times as long. */
static inline int rounds(int n) { return SANITIZED ? (n + 3) / 4 : n; }

#endif
