// Mixup (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018) and CutMix (Yun et al.,
// "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable Features", ICCV 2019): who is
// mixed with whom and by how much, drawn once the batch's samples are known. The engine mixes
// (BatchPrep::mix).
//
// A batch takes one of the two; where both are on, half of the batches each. Of the samples that count, each
// is the partner of exactly one other: their order turned by a drawn number of places. lambda and the box are
// drawn for each sample, which is `elem` in timm. Keys are (seed, epoch, batch) and (seed, epoch, position);
// no draw goes through libm, so batches are the same bits on every machine.
//
// Pure functions: any thread. Cost: a few Philox blocks and two logarithms per sample.
#pragma once

#include <cstdint>
#include <span>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/batch_prep.h"
#include "dlpipe/base/rng.h"
#include "dlpipe/pipeline/plan/sampler.h"

namespace dlpipe::pipeline {

/// alpha of Beta(alpha, alpha), from which lambda is drawn; 0: off.
struct MixingOptions {
  double mixup = 0;
  double cutmix = 0;
  bool is_on() const { return mixup > 0 || cutmix > 0; }
};

/// All of `mixes` ([capacity]): samples of weight 0 and a sample alone get partner -1, and so does one whose
/// box is empty. `size` is the pictures' in the batch.
void draw_mixes(const MixingOptions& options, uint64_t seed, const BatchRange& range,
                const augment::ImageSize& size, std::span<const float> weight, std::span<SampleMix> mixes);

/// Beta(alpha, alpha), alpha > 0. Up to 1: Jöhnk's rejection ("Erzeugung von betaverteilten und
/// gammaverteilten Zufallszahlen", Metrika 1964); above: Ulrich's polar method (Devroye, "Non-Uniform Random
/// Variate Generation", 1986, IX.4.3).
double symmetric_beta(double alpha, RandomStream& random);

}  // namespace dlpipe::pipeline
