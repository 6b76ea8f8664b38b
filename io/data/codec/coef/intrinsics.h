// x86's vector intrinsics, for what Highway has no word for; nothing elsewhere.
#pragma once

#if defined(__x86_64__)
// GCC 12 takes the undefined lanes inside its own intrinsics for a mistake.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif
