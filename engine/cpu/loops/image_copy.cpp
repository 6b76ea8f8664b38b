#include "engine/cpu/loops/image_copy.h"

#include <algorithm>

#include "engine/cpu/loops/vec.h"

namespace dlpipe::engine::cpu {
namespace {

// Pixels per tile: the tile's rows, both plain and blocked, stay in the first-level cache.
constexpr int64_t kTilePixels = 32;

// Calls copy(offset in plain, offset in blocked) for each group of eight channels of every pixel, tile by tile.
template <class Copy>
DLPIPE_INLINE inline void for_lanes(const ImageRun& run, int64_t block, const Copy& copy) {
  for (int64_t image = 0; image < run.images; ++image) {
    const int64_t plain_image = image * run.pixels * run.plain_channels;
    const int64_t blocked_image = image * run.pixels * run.channels;
    for (int64_t tile = 0; tile < run.pixels; tile += kTilePixels) {
      const int64_t end = std::min(run.pixels, tile + kTilePixels);
      for (int64_t c = 0; c < run.channels; c += block) {
        const int64_t plain = plain_image + c;
        const int64_t blocked = blocked_image + c * run.pixels;
        for (int64_t p = tile; p < end; ++p) {
          for (int64_t lane = 0; lane < block; lane += kLanes) {
            copy(plain + p * run.plain_channels + lane, blocked + p * block + lane);
          }
        }
      }
    }
  }
}

}  // namespace

template <class T>
void plain_to_blocked(const ImageRun& run, int block, const T* from, float* to) {
  on_best_isa([=]() DLPIPE_INLINE {
    for_lanes(run, block, [&](int64_t p, int64_t b) DLPIPE_INLINE { store(to + b, load(from + p)); });
  });
}

template <class T>
void blocked_to_plain(const ImageRun& run, int block, const float* from, T* to) {
  on_best_isa([=]() DLPIPE_INLINE {
    for_lanes(run, block, [&](int64_t p, int64_t b) DLPIPE_INLINE { store(to + p, load(from + b)); });
  });
}

template <class T>
void plain_to_planes(const ImageRun& run, const T* from, float* to) {
  on_best_isa([=]() DLPIPE_INLINE {
    for (int64_t image = 0; image < run.images; ++image) {
      const T* source = from + image * run.pixels * run.plain_channels;
      float* planes = to + image * run.pixels * run.channels;
      for (int64_t p = 0; p < run.pixels; ++p) {
        for (int64_t c = 0; c < run.channels; ++c) {
          planes[c * run.pixels + p] = load_one(source + p * run.plain_channels + c);
        }
      }
    }
  });
}

template <class T>
void planes_to_plain(const ImageRun& run, const float* from, T* to) {
  on_best_isa([=]() DLPIPE_INLINE {
    for (int64_t image = 0; image < run.images; ++image) {
      const float* planes = from + image * run.pixels * run.channels;
      T* target = to + image * run.pixels * run.plain_channels;
      for (int64_t p = 0; p < run.pixels; ++p) {
        for (int64_t c = 0; c < run.channels; ++c) {
          store_one(target + p * run.plain_channels + c, planes[c * run.pixels + p]);
        }
      }
    }
  });
}

void widen(const BFloat16* from, float* to, int64_t count) {
  on_best_isa([=]() DLPIPE_INLINE {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
    for (; i < count; ++i) to[i] = load_one(from + i);
  });
}

void narrow(const float* from, BFloat16* to, int64_t count) {
  on_best_isa([=]() DLPIPE_INLINE {
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
    for (; i < count; ++i) store_one(to + i, from[i]);
  });
}

template void plain_to_blocked(const ImageRun&, int, const float*, float*);
template void plain_to_blocked(const ImageRun&, int, const BFloat16*, float*);
template void blocked_to_plain(const ImageRun&, int, const float*, float*);
template void blocked_to_plain(const ImageRun&, int, const float*, BFloat16*);
template void plain_to_planes(const ImageRun&, const float*, float*);
template void plain_to_planes(const ImageRun&, const BFloat16*, float*);
template void planes_to_plain(const ImageRun&, const float*, float*);
template void planes_to_plain(const ImageRun&, const float*, BFloat16*);

}  // namespace dlpipe::engine::cpu
