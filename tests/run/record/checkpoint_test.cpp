#include "run/record/checkpoint.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <string>

#include "dlpipe/log.h"
#include "io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

namespace fs = std::filesystem;
using engine::Tensor;
using test::ScratchFolder;

static CheckpointState state_at(int64_t step, int64_t best_step = -1) {
  CheckpointState state;
  state.model.model = "mlp";
  state.model.arguments = {3, 1, 8, 9, 0xfedcba9876543210u};
  state.model.classes = {"cat", "dög", "with, comma"};
  state.model.val_augment = "resize(8x9) normalize(mean=0.5,std=0.25)";
  state.model.dtype = "bf16";
  state.model.loss = "cross_entropy";
  state.model.metrics = {"top1"};
  state.trainer.step = step;
  state.trainer.best = 0.1 + 0.2;
  state.trainer.best_step = best_step;
  state.trainer.worse_validations = 2;
  state.trainer.skipped_steps = 1;
  state.trainer.overflowed_steps = 4;
  state.trainer.loss_scale = 32768;
  state.trainer.good_steps = 1999;
  state.trainer.parameters_chain = 0xffffffffffffffffu;
  state.trainer.validated_step = step - 1;
  state.trainer.chained_step = step - 2;
  state.trainer.epoch_loss_sum = 0.7 + 0.1;
  state.trainer.epoch_loss_steps = 3;
  state.trainer.metrics_bytes = int64_t{1} << 40;
  state.trainer.quarantine_bytes = 17;
  state.source = {"dataset", "pipeline", 0x8000000000000001u, 4, 5, 6, 0xdeadbeefdeadbeefu, {1, 7, 9}};
  return state;
}

static CheckpointTensors tensors_of(float value) {
  CheckpointTensors tensors;
  tensors.model = {{"fc.weight", Tensor::full({2, 3}, value)}, {"bn.num", Tensor::full({}, 7, DType::kI64)}};
  tensors.optimizer = {{"fc.weight.momentum", Tensor::full({2, 3}, -value)}};
  return tensors;
}

TEST(Checkpoint, EverythingComesBack) {
  ScratchFolder folder;
  CheckpointTensors tensors = tensors_of(1.5f);
  tensors.ema = {{"fc.weight", Tensor::full({2, 3}, 9)}};
  const auto saved = save_checkpoint(folder.path(), state_at(12, 12), tensors, 2);
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const auto loaded = load_checkpoint(*saved);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(to_json(loaded->state), to_json(state_at(12, 12)));
  EXPECT_EQ(loaded->state.source, state_at(12).source);
  EXPECT_EQ(hash_tensors(loaded->tensors.optimizer, 0), hash_tensors(tensors.optimizer, 0));
  EXPECT_EQ(loaded->tensors.ema[0].tensor.to_doubles(), std::vector<double>(6, 9.0));
  ASSERT_EQ(loaded->tensors.model.size(), 2u);
  for (const engine::NamedTensor& named : loaded->tensors.model) {
    EXPECT_EQ(named.tensor.to_doubles()[0], named.name == "bn.num" ? 7 : 1.5);
  }
}

TEST(Checkpoint, KeepsTheLatestAndTheBest) {
  ScratchFolder folder;
  for (int64_t step = 1; step <= 5; ++step) {
    ASSERT_TRUE(save_checkpoint(folder.path(), state_at(step, step < 2 ? 1 : 2), tensors_of(1), 2).ok());
  }
  std::vector<std::string> names;
  const std::vector<std::string> paths = value_or_throw(list_checkpoints(folder.path()));
  for (const std::string& path : paths) names.push_back(fs::path(path).filename());
  EXPECT_EQ(names, (std::vector<std::string>{"step-000000005", "step-000000004", "step-000000002"}));
  EXPECT_EQ(load_checkpoint(folder / "best")->state.trainer.step, 2);
  EXPECT_EQ(load_checkpoint(folder / "last")->state.trainer.step, 5);
}

TEST(Checkpoint, TheSameStepMayBeSavedAgain) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(1), 2).ok());
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(2), 2).ok());
  EXPECT_EQ(load_checkpoint(folder / "last")->tensors.optimizer[0].tensor.to_doubles()[0], -2);
  EXPECT_EQ(list_checkpoints(folder.path())->size(), 1u);
}

TEST(Checkpoint, WhatAKilledWriterLeftIsNoCheckpointAndGoes) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(1), 2).ok());
  fs::create_directories(folder / "step-000000002.partial");
  std::ofstream(folder / "step-000000002.partial/model.safetensors") << "half";
  EXPECT_EQ(list_checkpoints(folder.path())->size(), 1u);
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(3), tensors_of(1), 2).ok());
  EXPECT_FALSE(fs::exists(folder / "step-000000002.partial"));
}

TEST(Checkpoint, AFullDiskKeepsTheLastGoodOne) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1, 1), tensors_of(1), 1).ok());
  CheckpointTensors large = tensors_of(2);
  large.model.push_back({"large", Tensor::full({1000, 100}, 1)});
  // A limit on file sizes stands in for a full disk.
  rlimit former{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &former), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {100'000, former.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto saved = save_checkpoint(folder.path(), state_at(2, 2), large, 1);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &former), 0);
  EXPECT_FALSE(saved.ok());
  EXPECT_EQ(load_checkpoint(folder / "last")->state.trainer.step, 1);
  EXPECT_EQ(load_checkpoint(folder / "best")->state.trainer.step, 1);
  EXPECT_FALSE(fs::exists(folder / "step-000000002.partial"));
}

TEST(Checkpoint, DamageIsFoundAndNamed) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(1), 1).ok());
  const std::string file = folder / "step-000000001/model.safetensors";
  std::string bytes = *formats::read_file(file);
  bytes.back() ^= 1;
  std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
  const Status status = load_checkpoint(folder / "last").status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("model.safetensors does not match the state.json"), std::string::npos)
      << status.message();
}

TEST(Checkpoint, AStateWithoutAFieldOrFromAnotherVersionIsRefused) {
  const formats::Json good = to_json(state_at(1));
  const std::set<std::string> newer = {"length",     "overflowed_steps", "loss_scale",
                                       "good_steps", "epoch_loss_sum",   "epoch_loss_steps"};
  for (const char* part : {"model", "trainer", "source"}) {
    for (const auto& [key, value] : good[part].members()) {
      if (value.is_array() || key == "best" || newer.contains(key)) continue;  // older states lack these
      formats::Json bad = good;
      formats::Json inner;
      for (const auto& [k, v] : good[part].members()) {
        if (k != key) inner.set(k, v);
      }
      bad.set(part, inner);
      const auto state = checkpoint_state_from_json(bad, "state.json");
      ASSERT_FALSE(state.ok()) << part << "." << key;
      EXPECT_NE(state.status().message().find("'" + key + "'"), std::string::npos)
          << state.status().message();
    }
  }
  formats::Json older = good;
  older.set("trainer", [&] {
    formats::Json trainer = formats::Json::object();
    for (const auto& [key, value] : good["trainer"].members()) {
      if (!key.starts_with("epoch_loss")) trainer.set(key, value);
    }
    return trainer;
  }());
  EXPECT_TRUE(std::isnan(checkpoint_state_from_json(older, "state.json")->trainer.epoch_loss_sum))
      << "not known";
  formats::Json other = good;
  other.set("version", 99);
  EXPECT_EQ(checkpoint_state_from_json(other, "state.json").status().code(), ErrorCode::kUnsupported);
}

TEST(Checkpoint, AStateThatNamesFewerClassesThanTheModelHasIsRefused) {
  CheckpointState state = state_at(1);
  state.model.classes.pop_back();
  const auto read = checkpoint_state_from_json(to_json(state), "state.json");
  ASSERT_FALSE(read.ok());
  EXPECT_NE(read.status().message().find("names 2 classes, but its model has outputs for 3"),
            std::string::npos)
      << read.status().message();
}

// Every value of state.json but the version, which older files have without a checksum.
TEST(Checkpoint, ImpossibleSizesOfTheModelAreRefused) {
  ScratchFolder folder;
  const auto loaded = [&](const engine::ModelArguments& sizes) {
    CheckpointState state = state_at(1);
    state.model.arguments = sizes;
    state.model.classes.clear();
    return load_checkpoint(*save_checkpoint(folder.path(), state, tensors_of(1), 1)).status();
  };
  const engine::ModelArguments least = {1, 1, 1, 1, 0, 0};
  const engine::ModelArguments most = {1 << 24, 4, 1 << 16, 1 << 16, 0, 1 << 20};
  EXPECT_TRUE(loaded(least).ok()) << loaded(least).message();
  EXPECT_TRUE(loaded(most).ok()) << loaded(most).message();
  using Sizes = engine::ModelArguments;
  for (int64_t Sizes::*const size :
       {&Sizes::classes, &Sizes::channels, &Sizes::height, &Sizes::width, &Sizes::length}) {
    Sizes too_small = least, too_large = most;
    --(too_small.*size);
    ++(too_large.*size);
    for (const Sizes& sizes : {too_small, too_large})
      EXPECT_NE(loaded(sizes).message().find("invalid model sizes"), std::string::npos) << sizes.*size;
  }
}

TEST(Checkpoint, AStateThatWasEditedIsRefused) {
  ScratchFolder folder;
  const std::string saved = *save_checkpoint(folder.path(), state_at(1), tensors_of(1), 1);
  const std::string file = saved + "/state.json";
  const std::string good = *formats::read_file(file);
  int edited = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    if (good[i] < '0' || good[i] > '9') continue;
    std::string bad = good;
    bad[i] = bad[i] == '7' ? '3' : '7';
    if (*formats::Json::parse(bad) == *formats::Json::parse(good)) continue;  // the last digit of 0.1 + 0.2
    std::ofstream(file, std::ios::binary | std::ios::trunc) << bad;
    EXPECT_FALSE(load_checkpoint(saved).ok()) << bad.substr(i < 40 ? 0 : i - 40, 60);
    ++edited;
  }
  EXPECT_GT(edited, 100);
  std::ofstream(file, std::ios::binary | std::ios::trunc) << good;
  EXPECT_TRUE(load_checkpoint(saved).ok());
}

TEST(Checkpoint, AFileOfAnotherSizeIsNotReadAtAll) {
  ScratchFolder folder;
  const std::string saved = *save_checkpoint(folder.path(), state_at(1), tensors_of(1), 1);
  fs::resize_file(saved + "/model.safetensors", uintmax_t{1} << 40);  // sparse: reading it would take minutes
  const Status status = load_checkpoint(saved).status();
  EXPECT_EQ(status.code(), ErrorCode::kCorrupt);
  EXPECT_NE(status.message().find("does not match the state.json"), std::string::npos) << status.message();
}

TEST(Checkpoint, ADamagedLaterOneIsPutAsideAndTakesNothingAlongWhenItsTimeComesAgain) {
  ScratchFolder folder;
  for (const int64_t step : {1, 2, 3}) {
    ASSERT_TRUE(save_checkpoint(folder.path(), state_at(step, 1), tensors_of(1), 3).ok());
  }
  std::ofstream(folder / "step-000000003/model.safetensors", std::ios::app) << "x";
  std::string noted;
  const auto opened = open_latest_checkpoint(folder.path(), [&](const std::string& text) { noted += text; });
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ((*opened)->state.trainer.step, 2);
  EXPECT_NE(noted.find("step-000000003.corrupt"), std::string::npos) << noted;
  EXPECT_TRUE(fs::exists(folder / "step-000000003.corrupt/model.safetensors"));
  EXPECT_EQ(fs::read_symlink(folder / "last"), "step-000000002");
  // --keep 1: what was just saved stays, whatever lies there with a higher number.
  fs::rename(folder / "step-000000003.corrupt", folder / "step-000000009");
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(3, 1), tensors_of(4), 1).ok());
  EXPECT_EQ(load_checkpoint(folder / "last")->state.trainer.step, 3);
  EXPECT_TRUE(load_checkpoint(folder / "best").ok());
}

TEST(Checkpoint, WhenAllAreDamagedNothingBeginsAgain) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(1), 1).ok());
  std::ofstream(folder / "step-000000001/model.safetensors", std::ios::app) << "x";
  const auto opened = open_latest_checkpoint(folder.path(), [](const std::string&) {});
  ASSERT_FALSE(opened.ok());
  EXPECT_NE(opened.status().message().find("the only checkpoint in"), std::string::npos)
      << opened.status().message();
  EXPECT_TRUE(opened.status().message().ends_with("--config RUN/config.toml --out NEW"));
  EXPECT_TRUE(fs::exists(folder / "step-000000001"));
}

/// What `work` answers where no file may be opened.
static Status without_files(const std::function<Status()>& work) {
  rlimit before{};
  EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Status status = work();
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  return status;
}

TEST(Checkpoint, AFolderThatIsGoneOrCannotBeListedIsNotAnEmptyOne) {
  ScratchFolder folder;
  const auto ignore = [](const std::string&) {};
  EXPECT_FALSE(value_or_throw(open_latest_checkpoint(folder.path(), ignore)).has_value());
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1), tensors_of(1), 1).ok());
  const Status gone = open_latest_checkpoint(folder / "moved", ignore).status();
  EXPECT_EQ(gone.code(), ErrorCode::kNotFound);
  EXPECT_NE(gone.message().find("or a link to them"), std::string::npos) << gone.message();
  const std::string list = "cannot list " + folder.path();
  for (const Status& status :
       {without_files([&] { return open_latest_checkpoint(folder.path(), ignore).status(); }),
        without_files([&] { return list_checkpoints(folder.path()).status(); }),
        without_files([&] { return find_checkpoint(folder.path()).status(); })}) {
    EXPECT_EQ(status.code(), ErrorCode::kIo);
    EXPECT_NE(status.message().find(list), std::string::npos) << status.message();
  }
}

TEST(FindCheckpoint, TakesARunACheckpointOrAFileInOne) {
  ScratchFolder folder;
  const std::string checkpoints = folder / "run/checkpoints";
  ASSERT_TRUE(save_checkpoint(checkpoints, state_at(1, 1), tensors_of(1), 2).ok());
  ASSERT_TRUE(save_checkpoint(checkpoints, state_at(2, 1), tensors_of(1), 2).ok());
  EXPECT_EQ(*find_checkpoint(folder / "run"), checkpoints + "/step-000000001");
  EXPECT_EQ(*find_checkpoint(checkpoints), checkpoints + "/step-000000001");
  EXPECT_EQ(*find_checkpoint(checkpoints + "/last"), checkpoints + "/last");
  EXPECT_EQ(*find_checkpoint(checkpoints + "/last/model.safetensors"), checkpoints + "/last");
  const Status status = find_checkpoint(folder / "nothing").status();
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
}

TEST(FindCheckpoint, KnowsTheBestWithoutTheLink) {
  ScratchFolder folder;
  const std::string checkpoints = folder / "run/checkpoints";
  ASSERT_TRUE(save_checkpoint(checkpoints, state_at(1, 1), tensors_of(1), 1).ok());
  ASSERT_TRUE(save_checkpoint(checkpoints, state_at(2, 2), tensors_of(1), 1).ok());
  // As a kill between the checkpoint's rename and the links leaves it.
  fs::remove(checkpoints + "/best");
  fs::remove(checkpoints + "/last");
  EXPECT_EQ(*find_checkpoint(folder / "run"), checkpoints + "/step-000000002");
  ASSERT_TRUE(open_latest_checkpoint(checkpoints, [](const std::string&) {}).ok());
  EXPECT_EQ(fs::read_symlink(checkpoints + "/best"), "step-000000002");
  ASSERT_TRUE(save_checkpoint(checkpoints, state_at(3, 2), tensors_of(1), 1).ok());
  EXPECT_EQ(*find_checkpoint(folder / "run"), checkpoints + "/step-000000002");
}

TEST(FindCheckpoint, SaysThatItTakesTheLastWhereTheBestIsGone) {
  static std::string logged;
  logged.clear();
  set_log_function([](LogLevel, std::string_view text) { logged += text; });
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1, 1), tensors_of(1), 2).ok());
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(2, 1), tensors_of(1), 2).ok());
  fs::remove_all(folder / "step-000000001");
  EXPECT_EQ(*find_checkpoint(folder.path()), folder / "step-000000002");
  set_log_function(nullptr);
  EXPECT_NE(logged.find("(step 1) is missing; using the last one, of step 2"), std::string::npos) << logged;
}

// An older checkpoint's weights are others than those asked for.
TEST(FindCheckpoint, TakesNoOlderOneWhereTheLatestStateIsDamaged) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1, 1), tensors_of(1), 2).ok());
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(2, 2), tensors_of(1), 2).ok());
  const std::string file = folder / "step-000000002/state.json";
  const std::string whole = *formats::read_file(file);
  const size_t places[] = {0, whole.find("best_step"), whole.find("0.3"), whole.size() - 2};
  for (const size_t place : places) {
    std::string damaged = whole;
    damaged.at(place) = static_cast<char>(damaged.at(place) ^ 1);
    ASSERT_TRUE(formats::write_file(file, damaged).ok());
    const Status status = find_checkpoint(folder.path()).status();
    EXPECT_FALSE(status.ok()) << place;
    EXPECT_NE(status.message().find(file), std::string::npos) << status.message();
    EXPECT_NE(status.message().find(folder / "step-000000001"), std::string::npos) << status.message();
  }
  fs::remove(file);
  EXPECT_FALSE(find_checkpoint(folder.path()).ok());
  EXPECT_EQ(*find_checkpoint(folder / "step-000000001"), folder / "step-000000001");
}

TEST(FindCheckpoint, TakesWhatWasBeingReplacedWhereNothingReplacedItYet) {
  ScratchFolder folder;
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1, 1), tensors_of(1), 1).ok());
  fs::rename(folder / "step-000000001", folder / "step-000000001.replaced");
  EXPECT_EQ(*find_checkpoint(folder.path()), folder / "step-000000001.replaced");
  ASSERT_TRUE(open_latest_checkpoint(folder.path(), [](const std::string&) {}).ok());
  ASSERT_TRUE(save_checkpoint(folder.path(), state_at(1, 1), tensors_of(2), 1).ok());
  EXPECT_EQ(load_checkpoint(folder / "best")->tensors.optimizer[0].tensor.to_doubles()[0], -2);
  EXPECT_FALSE(fs::exists(folder / "step-000000001.replaced"));
}

}  // namespace dlpipe::run
