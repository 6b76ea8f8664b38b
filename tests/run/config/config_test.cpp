#include "dlpipe/config.h"
#include "run/config/choices.h"
#include "run/config/config.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "base/messages.h"
#include "dlpipe/log.h"
#include "io/formats/atomic_file.h"
#include "tests/base/test_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

// Values other than a new TrainConfig's, from an option's record alone: an option that is added is among them.
static void change(const ConfigOption& option, std::string& value) {
  const auto other = [&](const std::string& choice) { return choice != value; };
  const auto choice = std::ranges::find_if(option.choices, other);
  value = choice != option.choices.end() ? *choice : value + "with \"quotes\" and \\ and \ttab";
}
static void change(const ConfigOption&, bool& value) {
  value = !value;
}
static void change(const ConfigOption& option, double& value) {
  constexpr double kLong = 0.1 + 0.2;  // has no short decimal form
  const double low = std::max(option.low, -1e9), high = std::min(option.high, 1e9);
  value = value == low + kLong * (high - low) ? high : low + kLong * (high - low);
}
static void change(const ConfigOption& option, int64_t& value) {
  const auto high = static_cast<int64_t>(std::min(option.high, 1234567890123.0));
  value = value == high ? high - 1 : high;
}
static void change(const ConfigOption&, std::vector<std::string>& value) {
  value = value.empty() ? std::vector<std::string>{"layer1.*", "60.5"} : std::vector<std::string>{};
}
template <class T>
static void change(const ConfigOption& option, std::optional<T>& value) {
  T other = value.value_or(T());
  change(option, other);
  value = other;
}
static void change(const ConfigOption& option, TrainConfig& config) {
  std::visit([&](auto member) { change(option, config.*member); }, option.member);
}

static TrainConfig changed_config() {
  TrainConfig config;
  for (const ConfigOption& option : config_options()) change(option, config);
  config.record = {{"data-typed", "../a \"b\""}, {"data-id", "0123"}};
  return config;
}

TEST(Config, EveryOptionHasAMemberOfItsOwn) {
  for (const ConfigOption& changed : config_options()) {
    TrainConfig config;
    change(changed, config);
    EXPECT_NE(config, TrainConfig()) << changed.name;
    for (const ConfigOption& option : config_options()) {
      EXPECT_EQ(option_text(option, config) == option_text(option, TrainConfig()) &&
                    has_value(option, config) == has_value(option, TrainConfig()),
                option.name != changed.name)
          << option.name << " when " << changed.name << " changes";
    }
  }
}

// A member without a row would be no part of config.toml. Between the members of rows, and `record`, lies no more than
// what aligns the next one: only a lone switch could hide there.
TEST(Config, EveryMemberHasAnOption) {
  const TrainConfig config;
  std::vector<bool> is_known(sizeof config);
  const auto know = [&](const auto& member) {
    const auto first = reinterpret_cast<const char*>(&member) - reinterpret_cast<const char*>(&config);
    std::fill_n(is_known.begin() + first, sizeof member, true);
  };
  know(config.record);
  for (const ConfigOption& option : config_options())
    std::visit([&](auto member) { know(config.*member); }, option.member);
  size_t gap = 0;
  for (size_t i = 0; i < is_known.size(); ++i) {
    gap = is_known[i] ? 0 : gap + 1;
    EXPECT_LT(gap, alignof(TrainConfig)) << "at byte " << i;
  }
}

TEST(Config, EveryOptionHasItsOwnNameAndHelp) {
  std::set<std::string> names;
  for (const ConfigOption& option : config_options()) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    EXPECT_NE(std::string(option.help), "");
  }
}

TEST(Config, DefaultsSatisfyTheirOwnChecks) {
  TrainConfig config;
  for (const ConfigOption& option : config_options()) {
    if (option_text(option, config).empty()) continue;
    const Status status = set_option(option, option_text(option, config), config);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  EXPECT_EQ(config, TrainConfig());
}

/// EXPECT_EQ of all members, one by one, so that a failure names the option.
static void expect_same(const TrainConfig& got, const TrainConfig& expected) {
  for (const ConfigOption& option : config_options()) {
    std::visit([&](auto member) { EXPECT_EQ(got.*member, expected.*member) << option.name; }, option.member);
  }
  EXPECT_EQ(got, expected);
}

TEST(Config, TomlRoundTripKeepsEveryValueExactly) {
  const TrainConfig config = changed_config();
  TrainConfig back;
  const Status status = parse_config(write_config(config), "config.toml", back);
  ASSERT_TRUE(status.ok()) << status.message();
  expect_same(back, config);
  ASSERT_TRUE(parse_config(write_config(TrainConfig()), "config.toml", back = {}).ok());
  expect_same(back, TrainConfig());
}

// A folder's name is bytes, and TOML is UTF-8.
TEST(Config, TomlRoundTripKeepsPathsThatAreNoUtf8) {
  TrainConfig config;
  config.data = "/a/d\xe9";
  config.out = "\xff\xfe";
  config.init = "/a/caf\xc3\xa9";
  config.record = {{"data-typed", "d\xe9"}, {"data-id", "0123"}};
  const std::string toml = write_config(config);
  EXPECT_TRUE(is_utf8(toml));
  TrainConfig read;
  const Status status = parse_config(toml, "config.toml", read);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(read, config);
  // Edited by hand: what is read there counts.
  std::string edited = toml;
  const std::string line = "\ndata = \"";
  const size_t begin = edited.find(line) + line.size();
  edited.replace(begin, edited.find('"', begin) - begin, "/b");
  TrainConfig other;
  ASSERT_TRUE(parse_config(edited, "config.toml", other).ok());
  EXPECT_EQ(other.data, "/b");
  EXPECT_EQ(other.out, config.out);
  const Status damaged = parse_config("[record]\ndata-bytes = \"?\"", "f", other);
  EXPECT_NE(damaged.message().find("'data-bytes' in f line 2 must be base64"), std::string::npos)
      << damaged.message();
}

TEST(Config, TextRoundTripKeepsEveryValueExactly) {
  TrainConfig config = changed_config();
  config.record.clear();  // no option
  TrainConfig back;
  for (const ConfigOption& option : config_options()) {
    const Status status = set_option(option, option_text(option, config), back);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  expect_same(back, config);
}

// Members that a program set, which no file could hold.
TEST(Config, WordsOfAListThatAFileWouldNotGiveBackAreRefused) {
  TrainConfig config;
  config.freeze = {"layer1.*", "a b"};
  EXPECT_TRUE(check_options(config).ok());
  for (const char* const word : {"layer[1,2].*", " a", "a\t", ""}) {
    config.freeze = {"layer1.*", word};
    const Status status = check_options(config);
    EXPECT_EQ(status.code(), ErrorCode::kMisuse) << "'" << word << "'";
    EXPECT_TRUE(status.message().starts_with("[config] --freeze is 'layer1.*,")) << status.message();
  }
}

TEST(Config, ThreadsAndSlotsAreAsManyAsALoaderTakes) {
  TrainConfig config;
  for (const char* const name : {"threads", "slots"}) {
    const ConfigOption& option = *find_config_option(name);
    EXPECT_TRUE(set_option(option, "1024", config).ok());
    EXPECT_NE(set_option(option, "1025", config).message().find("expected at most 1024"), std::string::npos);
  }
}

TEST(Config, AFileChangesOnlyWhatItNames) {
  TrainConfig config;
  config.batch = 7;
  ASSERT_TRUE(parse_config("lr = 1\nfreeze = [\"a\"]", "x", config).ok());
  EXPECT_EQ(config.lr, 1.0);
  EXPECT_EQ(config.batch, 7);
  EXPECT_EQ(config.freeze, std::vector<std::string>{"a"});
}

// As dlpipe.train hands on its keyword arguments.
TEST(Config, NumbersInListsKeepTheirDigits) {
  TrainConfig config;
  ASSERT_TRUE(parse_config("milestones = [0.123456789, 1234567.5, 0.1, 3]", "f", config).ok());
  EXPECT_EQ(config.milestones, (std::vector<std::string>{"0.123456789", "1234567.5", "0.1", "3"}));
}

// A switch may stand in a file as its flag is given: --no-decay-vectors.
TEST(Config, ASwitchMayBeCalledByItsContrary) {
  TrainConfig config;
  for (const auto& [toml, decays] : {std::pair("decay-vectors = false", false),
                                     {"no-decay-vectors = false", true},
                                     {"no-decay-vectors = true", false},
                                     {"decay-vectors = true", true}}) {
    throw_if_error(parse_config(toml, "c.toml", config));
    EXPECT_EQ(config.decay_vectors, decays) << toml;
  }
  const Status both = parse_config("decay-vectors = true\nno-decay-vectors = false", "c.toml", config);
  EXPECT_NE(both.message().find("'decay-vectors' and 'no-decay-vectors' (c.toml line 2) are the same option"),
            std::string::npos)
      << both.message();
  EXPECT_FALSE(parse_config("no-batch = true", "c.toml", config).ok());
}

static engine::ModelOutput no_file(const TrainConfig&) {
  return engine::ModelOutput::kImage;
}

TEST(Config, AugmentationIsChosenBySizesWhereNobodySaysOtherwise) {
  const auto augment = [](const std::string& file, const GivenOptions& given) {
    return read_options(
               file, given, [](const std::string&) {}, no_file)
        .augment;
  };
  EXPECT_EQ(augment("", {}), kAutoAugment);
  EXPECT_EQ(augment("", {{"augment", ""}}), "") << "none";
  EXPECT_EQ(augment("", {{"augment", "hflip"}}), "hflip");
}

TEST(Config, ModelsOfPixelsAndBoxesHaveDefaultsOfTheirOwn) {
  test::ScratchFolder folder;
  const auto read = [&](const std::string& file, const GivenOptions& given) {
    const TrainConfig config = read_options(
        file, given, [](const std::string&) {}, no_file);
    return std::tuple(config.batch, config.optimizer, config.lr);
  };
  using Read = std::tuple<int64_t, std::string, std::optional<double>>;
  const Read usual = {128, "sgd", {}}, dense = {8, "adamw", 2e-3};
  EXPECT_EQ(read("", {{"model", "resnet18"}}), usual);
  EXPECT_EQ(read("", {{"model", "unet_small"}}), dense);
  EXPECT_EQ(read("", {{"model", "detector_small"}}), dense);
  EXPECT_EQ(read("", {{"model", "m.dlm"}, {"task", "segment"}}), dense);
  EXPECT_EQ(read("", {{"model", "unet"}, {"batch", "128"}, {"optimizer", "sgd"}}), usual);
  EXPECT_EQ(read("", {{"model", "unet"}, {"lr", "0.01"}}), Read(8, "adamw", 0.01));
  const std::string file = folder / "c.toml";
  ASSERT_TRUE(formats::write_file(file, "model = \"unet\"\noptimizer = \"sgd\"\n").ok());
  EXPECT_EQ(read(file, {}), Read(8, "sgd", {}));
  EXPECT_EQ(read(file, {{"model", "resnet18"}}), usual);
  const auto read_with = [&](engine::ModelOutput output, const GivenOptions& given) {
    const TrainConfig config = read_options(
        "", given, [](const std::string&) {}, [&](const TrainConfig&) { return output; });
    return std::tuple(config.batch, config.optimizer, config.lr);
  };
  EXPECT_EQ(read_with(engine::ModelOutput::kBoxes, {{"init", "runs/a"}}), dense);
  EXPECT_EQ(read_with(engine::ModelOutput::kImage, {{"init", "runs/a"}}), usual);
  EXPECT_EQ(read_with(engine::ModelOutput::kBoxes, {{"init", "runs/a"}, {"model", "lenet"}}), usual);
}

TEST(Config, AnotherNameOfAGivenOptionIsAnsweredWithItsOwn) {
  const auto message = [](const char* name) {
    try {
      read_options(
          "", {{name, "3"}}, [](const std::string&) {}, no_file);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(message("batch-size"), "[train] there is no option --batch-size; it is called '--batch'");
  EXPECT_EQ(message("num-workers"), "[train] there is no option --num-workers; did you mean '--threads'?");
  EXPECT_EQ(message("modle"), "[train] there is no option --modle; did you mean '--model'?");
  EXPECT_EQ(message("batch"), "taken");
}

TEST(Config, AWholeNumberThatIsTooLargeIsToldTheExactLimit) {
  TrainConfig config;
  const ConfigOption& seed = *find_config_option("seed");
  for (const char* text : {"9223372036854775807", "9223372036854775808", "18446744073709551615"}) {
    const std::string message = set_option(seed, text, config).message();
    EXPECT_NE(message.find("at most 9200000000000000000"), std::string::npos) << message;
  }
  EXPECT_NE(set_option(seed, "-9223372036854775809", config).message().find("at least 0"), std::string::npos);
  EXPECT_NE(set_option(seed, "9.5", config).message().find("a whole number"), std::string::npos);
  EXPECT_TRUE(set_option(seed, "9200000000000000000", config).ok());
}

TEST(Config, ARateThatTheFileHasForAnotherOptimizerIsRefused) {
  test::ScratchFolder folder;
  const std::string file = folder / "c.toml";
  ASSERT_TRUE(formats::write_file(file, "lr = 0.25\nmomentum = 0.9\n").ok());
  const auto read = [&](const GivenOptions& given) {
    return read_options(
        file, given, [](const std::string&) {}, no_file);
  };
  try {
    read({{"optimizer", "adamw"}});
    FAIL() << "0.25 is sgd's";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kMisuse);
    for (const char* part : {"lr = 0.25", "c.toml", "sgd", "adamw", "--lr"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
  EXPECT_EQ(read({{"optimizer", "adamw"}, {"lr", "0.25"}}).lr, 0.25);
  EXPECT_EQ(read({{"optimizer", "sgd"}}).lr, 0.25);
  ASSERT_TRUE(formats::write_file(file, "momentum = 0.9\n").ok());
  EXPECT_FALSE(read({{"optimizer", "adamw"}}).lr.has_value());
}

TEST(Config, AKeyOfAnOptionThatWasRemovedHasNoEffect) {
  for (const char* text : {"compile = false\nbatch = 3", "compile = true\nbatch = 3"}) {
    TrainConfig config;
    ASSERT_TRUE(parse_config(text, "c.toml", config).ok());
    EXPECT_EQ(config.batch, 3);
  }
}

TEST(Config, AFileIsReadOnce) {
  static int warnings = 0;
  test::ScratchFolder folder;
  const std::string file = folder / "c.toml";
  ASSERT_TRUE(formats::write_file(file, "compile = true\nmodel = \"unet\"\n").ok());
  const auto former = set_log_function([](LogLevel, std::string_view) { ++warnings; });
  const TrainConfig config = read_options(
      file, {{"epochs", "2"}}, [](const std::string&) {}, no_file);
  set_log_function(former);
  EXPECT_EQ(warnings, 1);
  EXPECT_EQ(config.batch, 8);
  EXPECT_EQ(config.optimizer, "adamw");
}

TEST(Config, MessagesNameOptionPlaceAndRemedy) {
  struct Case {
    const char* toml;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"bacth = 3", "there is no option 'bacth' (c.toml line 1); did you mean 'batch'?"},
      {"batch-size = 3", "there is no option 'batch-size' (c.toml line 1); it is called 'batch'"},
      {"learning_rate = 3", "; it is called 'lr'"},
      {"weight_decay = 3", "; it is called 'weight-decay'"},
      {"num_workers = 3", "; did you mean 'threads'?"},
      {"dataset = \"d\"", "; did you mean 'data'?"},
      {"gpu = true", "; did you mean 'device' with 'cuda'?"},
      {"gpu = false", "; did you mean 'device'?"},
      {"amp = false", "; did you mean 'dtype'?"},
      {"no_decay_vectors = true", "; it is called 'decay-vectors', with the opposite value"},
      {"No-Nesterov = false", "; it is called 'nesterov', with the opposite value"},
      {"\nbatch = \"3\"", "'batch' in c.toml line 2 must be a number"},
      {"batch = 2.5", "--batch is '2.5'; expected a whole number (c.toml line 1)"},
      {"batch = 0", "--batch is '0'; expected at least 1"},
      {"momentum = 1.5", "--momentum is '1.5'; expected at most 1"},
      {"mixup = -0.5", "--mixup is '-0.5'; expected at least 0"},
      {"model = 3", "'model' in c.toml line 1 must be a quoted string"},
      {"nesterov = 1", "'nesterov' in c.toml line 1 must be true or false"},
      {"freeze = \"a\"", "'freeze' in c.toml line 1 must be a list"},
      {"lr = [1]", "'lr' in c.toml line 1 must be one value"},
      {"schedule = \"cosin\"", "--schedule can't be 'cosin'; did you mean 'cosine'?"},
      {"lr = ", "not valid TOML"},
      {"lr = nan", "expected a number"},
      {"[train]\nbatch = 3",
       "there is no section [train] (c.toml line 1); options are flat: write batch = ... without [train]"},
      {"lr = 1\n[data]\nbatch = 3",
       "no section [data] (c.toml line 2); options are flat: write batch = ... without [data]"},
      {"train.batch = 3", "options are flat: write batch = ... without [train]"},
      {"[[train]]\nbatch = 3", "options are flat: write batch = ... once, without [train]"},
      {"[optimizer]\nname = \"sgd\"", "options are flat: name = value, without [optimizer]"},
      {"lr = {a = 1}", "'lr' in c.toml line 1 must be a number"},
      {"record = 5", "'record' in c.toml line 1 must be a table of strings, [record]"},
      {"[[record]]\nbatch = 3", "'record' in c.toml line 1 must be a table of strings, [record]"},
      {"[record]\ndata-id = \"0\"\noptimizer = \"adamw\"",
       "'optimizer' (c.toml line 3) is in the section [record]; options belong above [record]"},
      {"[record]\nlr = 0.1", "'lr' (c.toml line 2) is in the section [record]"},
      {"[record]\nno-nesterov = true", "'no-nesterov' (c.toml line 2) is in the section [record]"},
      {"[record]\nzzz = 1", "[record] has no entry 'zzz' (c.toml line 2)"},
      {"[record]\nzzz-bytes = \"\"", "[record] has no entry 'zzz-bytes' (c.toml line 2)"},
      {"[record]\ndata-id = 5", "'data-id' in c.toml line 2 must be a string"},
  };
  for (const Case& c : cases) {
    TrainConfig config;
    const Status status = parse_config(c.toml, "c.toml", config);
    EXPECT_EQ(status.code(), ErrorCode::kMisuse) << c.toml;
    EXPECT_NE(status.message().find(c.message), std::string::npos) << status.message();
  }
}

// toml++ takes its tables down by recursion: such files overflowed the stack.
TEST(Config, DeepNestingIsRefusedBeforeItIsParsed) {
  std::string parts = "a";
  std::string mixed = "b";
  for (int i = 0; i < 50'000; ++i) {
    parts += ".a";
    mixed += i % 2 == 0 ? " . \"x.y\"" : " . 'z'";
  }
  const std::string lists = std::string(50'000, '[') + std::string(50'000, ']');
  for (const std::string& text :
       {parts + " = 1", "[" + parts + "]", mixed + " = 1", "x = " + lists, "x = {" + parts + " = 1}"}) {
    TrainConfig config;
    const Status status = parse_config("\n" + text, "c.toml", config);
    EXPECT_EQ(status.code(), ErrorCode::kMisuse);
    EXPECT_NE(status.message().find("c.toml line 2 nests"), std::string::npos) << status.message();
  }
}

TEST(Config, DotsAndBracketsInTextsAndCommentsAreNoNesting) {
  const std::string dots(100, '.');
  const std::string open(100, '[');
  TrainConfig config;
  const Status status =
      parse_config("# " + dots + open + "\nfreeze = [\"" + dots + "\\\"" + open + "\", '" + open +
                       "', \"\"\"" + open + "\"\"\"] # " + dots +
                       "\nmilestones = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, "
                       "1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.5]\n",
                   "c.toml", config);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(config.freeze, (std::vector<std::string>{dots + "\"" + open, open, open}));
  EXPECT_EQ(config.milestones.size(), 19u);
}

TEST(Config, AFileThatIsNotThereIsNamed) {
  TrainConfig config;
  const Status status = read_config("/nonexistent/c.toml", config);
  EXPECT_EQ(status.code(), ErrorCode::kNotFound);
  EXPECT_NE(status.message().find("/nonexistent/c.toml"), std::string::npos);
}

TEST(Config, IntervalsAreStepsEpochsOrTime) {
  using Unit = Interval::Unit;
  struct Case {
    const char* text;
    Unit unit;
    double amount;
  };
  for (const Case& c :
       {Case{"500", Unit::kSteps, 500}, Case{"500steps", Unit::kSteps, 500}, Case{"1epoch", Unit::kEpochs, 1},
        Case{"0.5 epochs", Unit::kEpochs, 0.5}, Case{"5min", Unit::kSeconds, 300},
        Case{"30s", Unit::kSeconds, 30}, Case{"2h", Unit::kSeconds, 7200}, Case{"never", Unit::kNever, 0}}) {
    const auto interval = parse_interval(c.text, "val-every");
    ASSERT_TRUE(interval.ok()) << c.text;
    EXPECT_EQ(interval->unit, c.unit) << c.text;
    EXPECT_EQ(interval->amount, c.amount) << c.text;
  }
  for (const char* text : {"", "0", "-1", "1.5steps", "5 fortnights", "epoch"}) {
    const auto interval = parse_interval(text, "val-every");
    ASSERT_FALSE(interval.ok()) << text;
    EXPECT_NE(interval.status().message().find("--val-every"), std::string::npos);
  }
}

// Recipes are read by nobody until someone trains with them; this keeps them valid.
TEST(Config, CommittedRecipesParse) {
  for (const char* name : {"quickstart", "mnist_mlp", "mnist_lenet", "cifar10", "cifar10_resnet18"}) {
    TrainConfig config;
    const Status status = read_config(test_file("../recipes/") + name + ".toml", config);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_NE(config.model, "");
  }
}

}  // namespace dlpipe::run
