// Many numbers of one random stream, several at a time: initial weights are hundreds of millions of them.
#pragma once

#include <cstdint>
#include <span>

namespace dlpipe::engine {

/// What as many calls of RandomStream(seed, stream).uniform_double() give, to the bit.
void draw_uniform(uint64_t seed, uint64_t stream, std::span<double> values);

/// What as many calls of RandomStream(seed, stream).normal() give, to the bit, on every instruction set.
void draw_normal(uint64_t seed, uint64_t stream, std::span<double> values);

}  // namespace dlpipe::engine
