// What a program adds to dlpipe's own, handed to Session, Evaluator and Predictor:
//
//   dlpipe::run::Registries registries;
//   registries.models.add(kMine);
//   dlpipe::run::Session session(config, registries);
//
// A value, in the beginning what is built in. The records are the program's and live longer.
#pragma once

#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/core/op.h"
#include "dlpipe/engine/metrics/metrics.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/engine/optim/optimizer.h"
#include "dlpipe/io/data/sources/source.h"
#include "dlpipe/run/config/loss.h"

namespace dlpipe::run {

struct Registries {
  augment::OpRegistry augmentations = augment::OpRegistry::builtin();
  engine::ModelRegistry models = engine::ModelRegistry::builtin();
  engine::OptimizerRegistry optimizers = engine::OptimizerRegistry::builtin();
  LossRegistry losses = LossRegistry::builtin();
  engine::MetricRegistry metrics = engine::MetricRegistry::builtin();
  /// What bench_ops measures; models apply an op's row itself.
  engine::OpRegistry ops = engine::OpRegistry::builtin();
  /// What --data may be where it is no dataset (ingest takes its own: IngestOptions::known_sources).
  data::SourceRegistry sources = data::SourceRegistry::builtin();
  std::vector<Device*> devices;  // by their names, before the machine's

  Result<Device*> find_device(std::string_view name) const {
    for (Device* device : devices) {
      if (device->name() == name) return device;
    }
    return dlpipe::find_device(name);
  }
};

}  // namespace dlpipe::run
