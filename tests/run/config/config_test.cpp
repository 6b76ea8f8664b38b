#include "dlpipe/run/config/config.h"

#include <gtest/gtest.h>

#include <set>

#include "dlpipe/io/formats/atomic_file.h"
#include "tests/io/formats/scratch.h"

namespace dlpipe::run {

static TrainConfig changed_config() {
  TrainConfig config;
  config.data = "data/with \"quotes\" and \\ and \ttab";
  config.model = "resnet18";
  config.augment = "rrc(224) hflip";
  config.batch = 96;
  config.lr = 0.1 + 0.2;  // has no short decimal form
  config.weight_decay = 5e-4;
  config.nesterov = true;
  config.decay_vectors = false;
  config.freeze = {"layer1.*", "conv1.weight"};
  config.lr_scale = {"*.bias=64", "fc.*=0.5"};
  config.milestones = {"30", "60.5"};
  config.metrics = {};
  config.seed = 1234567890123;
  return config;
}

TEST(Config, EveryOptionHasItsOwnNameHelpAndMember) {
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

TEST(Config, TomlRoundTripKeepsEveryValueExactly) {
  const TrainConfig config = changed_config();
  TrainConfig back;
  const Status status = parse_config(write_config(config), "config.toml", back);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(back, config);
}

TEST(Config, TextRoundTripKeepsEveryValueExactly) {
  const TrainConfig config = changed_config();
  TrainConfig back;
  for (const ConfigOption& option : config_options()) {
    if (!has_value(option, config)) continue;
    ASSERT_TRUE(set_option(option, option_text(option, config), back).ok()) << option.name;
  }
  EXPECT_EQ(back, config);
}

TEST(Config, AFileChangesOnlyWhatItNames) {
  TrainConfig config;
  config.batch = 7;
  ASSERT_TRUE(parse_config("lr = 1\nfreeze = [\"a\"]", "x", config).ok());
  EXPECT_EQ(config.lr, 1.0);
  EXPECT_EQ(config.batch, 7);
  EXPECT_EQ(config.freeze, std::vector<std::string>{"a"});
}

TEST(Config, MessagesNameOptionPlaceAndRemedy) {
  struct Case {
    const char* toml;
    const char* message;
  };
  const std::vector<Case> cases = {
      {"bacth = 3", "there is no option 'bacth' (c.toml line 1); did you mean 'batch'?"},
      {"\nbatch = \"3\"", "'batch' in c.toml line 2 must be a number"},
      {"batch = 2.5", "--batch is '2.5'; expected a whole number (c.toml line 1)"},
      {"batch = 0", "--batch is '0'; expected at least 1"},
      {"momentum = 1.5", "--momentum is '1.5'; expected at most 1"},
      {"mixup = -0.5", "--mixup is '-0.5'; expected at least 0"},
      {"model = 3", "'model' in c.toml line 1 must be a text in quotes"},
      {"nesterov = 1", "'nesterov' in c.toml line 1 must be true or false"},
      {"freeze = \"a\"", "'freeze' in c.toml line 1 must be a list"},
      {"lr = [1]", "'lr' in c.toml line 1 must be one value"},
      {"schedule = \"cosin\"", "--schedule can't be 'cosin'; did you mean 'cosine'?"},
      {"lr = ", "not valid TOML"},
      {"lr = nan", "expected a number"},
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
    const Status status = read_config(std::string(DLPIPE_TEST_DATA "/../recipes/") + name + ".toml", config);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_NE(config.model, "");
  }
}

}  // namespace dlpipe::run
