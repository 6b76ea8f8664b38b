#include "dlpipe/run/train/session/ranks_agree.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "dlpipe/base/refuse.h"
#include "dlpipe/base/text.h"
#include "dlpipe/engine/core/kernel_table.h"
#include "dlpipe/io/formats/json.h"
#include "dlpipe/run/record/build_info.h"
#include "dlpipe/run/train/session/linked_data.h"

namespace dlpipe::run {

using formats::Json;

namespace {

/// Free on resume, and yet the same on all ranks of one session.
constexpr std::array<std::string_view, 7> kShared = {
    "dtype",           "device", "bucket-mb", "shard-optimizer", "tensor-parallel", "pipeline-parallel",
    "checkpoint-every"};

bool is_path(std::string_view name) {
  return name == "out" ||
         std::ranges::any_of(kPathOptions, [&](const PathOption& option) { return name == option.name; });
}

/// What has to be equal, by the name under which a difference is told.
Json facts_of(const SessionOptions& options) {
  Json facts = Json::object();
  for (const ConfigOption& option : config_options()) {
    const std::string_view name = option.name;
    const bool is_own = option.free_on_resume && std::ranges::find(kShared, name) == kShared.end();
    if (!is_own && !is_path(name)) facts.set(concat("--", name), option_text(option, options.config));
  }
  for (const PathOption& option : kPathOptions) {
    const bool has_pictures = is_of_pictures(options.config, option);
    facts.set(concat("what --", option.name, " is"), has_pictures ? "pictures" : "a dataset");
  }
  facts.set("the build", build_line());
  facts.set("the instruction set", std::string(engine::isa_name(engine::kernel_isa())));
  return facts;
}

Json facts_of(const SessionData& data, uint64_t weights_hash) {
  return Json::object({{"the dataset", data.dataset_id},
                       {"the validation set", data.val_id},
                       {"the pipeline", data.pipeline_id},
                       {"the hash of the first weights", hex64(weights_hash)}});
}

/// Empty: there is none.
std::string first_difference(const std::vector<Json>& all) {
  for (size_t rank = 1; rank < all.size(); ++rank) {
    for (const auto& [name, value] : all.front()["facts"].members()) {
      const Json& other = all[rank]["facts"][name];
      if (other == value) continue;
      return concat("[train] the processes differ in ", name, ": rank ", rank, " has '", other.as_string(),
                    "', rank 0 '", value.as_string(), "'; start all of them alike");
    }
  }
  return "";
}

void check_agree(Json facts, const Status& prepared, engine::Collective& ranks) {
  const Json mine = Json::object({{"code", static_cast<int64_t>(prepared.code())},
                                  {"error", prepared.message()},
                                  {"facts", std::move(facts)}});
  std::vector<Json> all;
  for (const std::string& text : value_or_throw(ranks.gather(mine.dump(), "the beginning of the run")))
    all.push_back(value_or_throw(Json::parse(text)));
  const auto refuse_all = [&](ErrorCode code, const std::string& message) {
    throw Error(Status(code, ranks.rank() == 0 ? message : ""));
  };
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const auto code = static_cast<ErrorCode>(all[rank]["code"].as_int());
    if (code == ErrorCode::kOk) continue;
    refuse_all(code,
               concat(rank == 0 ? "" : concat("[ranks] rank ", rank, ": "), all[rank]["error"].as_string()));
  }
  if (const std::string difference = first_difference(all); !difference.empty())
    refuse_all(ErrorCode::kMisuse, difference);
}

}  // namespace

void check_options_agree(const SessionOptions& options, const Status& prepared, engine::Collective& ranks) {
  Status status = prepared;
  Json facts = Json::object();
  try {
    if (prepared.ok()) facts = facts_of(options);
  } catch (...) {  // a folder that can't be looked into
    status = status_from_current_exception("train");
  }
  check_agree(std::move(facts), status, ranks);
}

void check_data_agree(const SessionData& data, uint64_t weights_hash, const Status& prepared,
                      engine::Collective& ranks) {
  check_agree(prepared.ok() ? facts_of(data, weights_hash) : Json::object(), prepared, ranks);
}

}  // namespace dlpipe::run
