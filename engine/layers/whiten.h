// Initial weights of a first convolution that are computed from images instead of drawn. One thread at a
// time.
#pragma once

#include "dlpipe/engine/core/tensor.h"

namespace dlpipe::engine {

/// Filters that whiten the patches of `images` (PCA whitening; Coates and Ng, "Learning feature
/// representations with k-means", 2012, section 2, as first layer of a network by Page, "How to train your
/// ResNet", 2019, part 8). With l_k the k-th largest eigenvalue of the patches' second moment E[p p^T] and
/// e_k its eigenvector, channels 2k and 2k+1 of the output are
///   e_k / sqrt(l_k + epsilon)  and its negative,
/// so that a ReLU behind them loses nothing. weight: f32 [O,C,KH,KW] with O even and at most 2 * C * KH * KW,
/// written in place. images: f32 [N,H,W,C], as the network gets them; a few hundred suffice. A pure function
/// of its arguments. kMisuse when they don't fit.
void fill_whitening(Tensor& weight, const Tensor& images, double epsilon = 5e-4);

}  // namespace dlpipe::engine
