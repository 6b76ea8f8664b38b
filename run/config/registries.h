// What a program adds to dlpipe's own: handed to Session, Evaluator and Predictor. A value; what it points to
// is the program's and lives longer. Null or empty: only what is built in.
#pragma once

#include <vector>

#include "dlpipe/augment/op.h"
#include "dlpipe/base/device/device.h"
#include "dlpipe/engine/metrics/metrics.h"
#include "dlpipe/engine/models/model.h"
#include "dlpipe/run/config/loss.h"

namespace dlpipe::run {

struct Registries {
  const augment::OpRegistry* augmentations = nullptr;
  const engine::ModelRegistry* models = nullptr;
  std::vector<const LossRecord*> losses;
  std::vector<const engine::MetricRecord*> metrics;
  std::vector<Device*> devices;  // by their names

  const augment::OpRegistry& augmentation_registry() const {
    return augmentations != nullptr ? *augmentations : augment::OpRegistry::builtin();
  }
  const engine::ModelRegistry& model_registry() const {
    return models != nullptr ? *models : engine::ModelRegistry::builtin();
  }
  Result<Device*> find_device(std::string_view name) const {
    for (Device* device : devices) {
      if (device->name() == name) return device;
    }
    return dlpipe::find_device(name);
  }
  Result<const engine::MetricRecord*> find_metric(std::string_view name) const {
    for (const engine::MetricRecord* record : metrics) {
      if (record->name == name) return record;
    }
    return engine::find_metric(name);
  }
};

}  // namespace dlpipe::run
