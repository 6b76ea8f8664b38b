#include "dlpipe/run/train/session/results.h"

#include <filesystem>

#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/io/data/dataset.h"
#include "dlpipe/io/formats/atomic_file.h"
#include "dlpipe/run/record/build_info.h"

namespace dlpipe::run {

/// Of the choices alone: the times that were measured for them differ from run to run.
static uint64_t hash_of_choices(const std::string& kernels) {
  const formats::Json json = value_or_throw(formats::Json::parse(kernels));
  formats::Json choices = formats::Json::object();
  for (const auto& [key, choice] : json["choices"].members()) {
    choices.set(
        key, formats::Json::object(
                 {{"kernel", choice["kernel"]}, {"images", choice["images"]}, {"parts", choice["parts"]}}));
  }
  const std::string text = concat(json["isa"].as_string(), json["library"].as_string(), choices.dump());
  return data::checksum64(std::as_bytes(std::span(text)));
}

Receipt receipt_of(const SessionOptions& options, const SessionData& data, const TrainOutcome& outcome,
                   const std::string& kernels) {
  Receipt receipt;
  receipt.dataset_id = data.dataset_id;
  receipt.pipeline_id = data.pipeline_id;
  receipt.subset = data.subset;
  receipt.seed = options.config.seed;
  receipt.grains = options.config.grains;
  receipt.sync_bn = options.config.sync_bn;
  receipt.compress = options.config.compress;
  receipt.exact = options.device_sums == nullptr;
  receipt.tensor_parallel = options.ranks.tensor_world();
  receipt.pipeline_parallel = options.ranks.stage_world();
  receipt.build = build_line();
  receipt.isa = options.is_on_host() ? std::string(engine::isa_name(engine::kernel_isa()))
                                     : std::string(options.device->name());
  receipt.kernels_hash = hex64(hash_of_choices(kernels));
  receipt.model = options.config.model;
  receipt.dtype = options.config.dtype;
  receipt.tf32 = options.step.tf32;
  receipt.steps = outcome.steps;
  receipt.samples = data.train->state().samples_consumed;
  receipt.finished = !outcome.stopped;
  receipt.batches_chain = hex64(outcome.batches_chain);
  receipt.parameters_chain = hex64(outcome.parameters_chain);
  return receipt;
}

void write_results(const RunDirectory& directory, const TrainOutcome& outcome, const Receipt& receipt) {
  if (outcome.samples > 0 || !std::filesystem::exists(directory.ledger_file()))
    throw_if_error(write_ledger(directory, outcome, true));
  throw_if_error(formats::write_json(directory.receipt_file(), to_json(receipt)));
}

}  // namespace dlpipe::run
