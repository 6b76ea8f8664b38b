// Memory of the host for tensors, batches and scratch. Any thread.
#pragma once

#include <cstddef>

namespace dlpipe {

/// At least `bytes`, aligned to 64, from 2 MiB on to 2 MiB and with a hint that asks for huge pages: kernels
/// walk matrices whose rows lie on many pages, and a fresh block costs a fault a page. Null where there is
/// none left.
void* allocate_host(size_t bytes) noexcept;
/// Of allocate_host, or null.
void free_host(void* memory) noexcept;
/// What lies in these whole pages of allocate_host's memory is forgotten and costs no memory until it is
/// written again.
void discard_host(void* memory, size_t bytes) noexcept;

}  // namespace dlpipe
