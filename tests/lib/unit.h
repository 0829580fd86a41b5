/* What every unit test includes: cmocka in the order that it wants. */
#ifndef PLIM_TESTS_UNIT_H
#define PLIM_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

#endif
