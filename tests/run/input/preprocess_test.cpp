#include "run/input/dataset.h"

#include <gtest/gtest.h>

namespace dlpipe::run {

static const augment::OpRegistry& registry() {
  return augment::OpRegistry::builtin();
}
static data::PixelStats cifar_stats() {
  return {3, {0.49139968, 0.48215841, 0.44653091, 0}, {0.24703223, 0.24348513, 0.26158784, 0}};
}
static BatchPrep prep_of(const std::string& expression, const data::PixelStats& stats) {
  BatchPrep prep;
  const auto chain = augment::Chain::parse(expression);
  EXPECT_TRUE(chain.ok()) << chain.status().message();
  EXPECT_TRUE(chain->fill_prep(prep, {stats.channels, stats.mean, stats.std}).ok());
  return prep;
}

TEST(Preprocess, TrainingNormalisesByTheDatasetUnlessTold) {
  EXPECT_EQ(*training_chain("rrc(32) hflip", registry()), "rrc(32) hflip normalize");
  EXPECT_EQ(*training_chain("", registry()), "normalize");
  EXPECT_EQ(*training_chain("normalize(mean=0.5,std=0.5)", registry()), "normalize(mean=0.5,std=0.5)");
}

TEST(Preprocess, ValidationTakesTheModelsSizeAndTrainingsNumbers) {
  for (const char* train : {"rrc(32) normalize", "rrc(32) normalize(mean=0.1:0.2:0.3,std=0.4:0.5:0.6)"}) {
    const auto chain = validation_chain("", train, {32, 32, 3}, cifar_stats(), registry());
    ASSERT_TRUE(chain.ok()) << chain.status().message();
    EXPECT_EQ(chain->rfind("resize(32) center_crop(32) normalize(mean=", 0), 0u) << *chain;
    // Without any dataset the written numbers give training's floats, bit for bit.
    const BatchPrep wanted = prep_of(train, cifar_stats());
    const BatchPrep got = prep_of(*chain, {});
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_EQ(got.scale[c], wanted.scale[c]);
      EXPECT_EQ(got.bias[c], wanted.bias[c]);
    }
  }
}

TEST(Preprocess, ValidationSeesWholeImagesWhereTrainingDoes) {
  const auto begins = [](const char* train, const std::string& expected) {
    const auto chain = validation_chain("", train, {32, 32, 3}, cifar_stats(), registry());
    ASSERT_TRUE(chain.ok()) << chain.status().message();
    EXPECT_EQ(chain->rfind(expected + " normalize(", 0), 0u) << train << ": " << *chain;
  };
  for (const char* train : {"resize(32x32) normalize", "resize(32x32) hflip brightness(0.2) normalize",
                            "hflip resize(32x32,interpolation=bicubic) normalize"})
    begins(train, "resize(32x32)");
  for (const char* train : {"normalize", "hflip normalize", "resize(32) center_crop(32) normalize",
                            "resize(40x40) random_crop(32) normalize", "rrc(32) normalize",
                            "resize(32,side=longer) pad_to(32) normalize"})
    begins(train, "resize(32) center_crop(32)");
}

TEST(Preprocess, NumbersAreWrittenAsTheyWereGiven) {
  for (const char* normalize : {"normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225)",
                                "normalize(mean=0:0.5:1,std=1:0.5:0.25)"}) {
    const auto chain = validation_chain("", normalize, {32, 32, 3}, cifar_stats(), registry());
    EXPECT_EQ(*chain, std::string("resize(32) center_crop(32) ") + normalize);
  }
}

TEST(Preprocess, AChannelThatNeverChangesKeepsItsMeaning) {
  const data::PixelStats black{1, {0, 0, 0, 0}, {0, 0, 0, 0}};
  const auto chain = validation_chain("", "normalize", {8, 8, 1}, black, registry());
  ASSERT_TRUE(chain.ok());
  EXPECT_EQ(prep_of(*chain, {}).scale[0], prep_of("normalize", black).scale[0]);
}

TEST(Preprocess, AGivenValidationChainIsTakenAsItIs) {
  const std::string own = "resize(40) center_crop(32) normalize(mean=0.5,std=0.5)";
  EXPECT_EQ(*validation_chain(own, "normalize", {32, 32, 3}, cifar_stats(), registry()), own);
  EXPECT_EQ(
      validation_chain("", "normalize", {20, 30, 3}, cifar_stats(), registry())->rfind("resize(20x30) ", 0),
      0u);
}

TEST(Preprocess, ATypoIsNamedWithTheNearestOp) {
  const auto chain = training_chain("rrc(32) hflp", registry());
  ASSERT_FALSE(chain.ok());
  EXPECT_NE(chain.status().message().find("hflip"), std::string::npos) << chain.status().message();
}

TEST(Classes, DifferentTablesArePrintedBoth) {
  const std::vector<std::string> a = {"cat", "dog"};
  const std::vector<std::string> b = {"dog", "cat"};
  EXPECT_TRUE(check_classes("x", a, "y", a).ok());
  const Status status = check_classes("runs/a", a, "data/val", b);
  EXPECT_EQ(status.code(), ErrorCode::kMisuse);
  EXPECT_NE(status.message().find("runs/a (2): cat, dog"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("data/val (2): dog, cat"), std::string::npos) << status.message();
  const std::string known = check_classes("runs/a", a, "data/val", b, "my data").message();
  EXPECT_NE(known.find("ingest with --classes-from 'my data': the classes are\n"), std::string::npos)
      << known;
}

TEST(Preprocess, LongClassTablesAreShownWhereTheyDiffer) {
  std::vector<std::string> a;
  for (int i = 0; i < 1000; ++i) a.push_back("n" + std::to_string(i));
  std::vector<std::string> b = a;
  b.erase(b.begin() + 500);
  const std::string said = check_classes("runs/a", a, "data/val", b).message();
  EXPECT_NE(said.find("different classes, starting at number 500"), std::string::npos) << said;
  EXPECT_NE(said.find("runs/a (1000): ... 498: n498, n499, n500, "), std::string::npos) << said;
  EXPECT_NE(said.find("data/val (999): ... 498: n498, n499, n501, "), std::string::npos) << said;
  EXPECT_NE(said.find("and 482 more"), std::string::npos) << said;
  EXPECT_LT(said.size(), 600u);
  a.resize(3);
  EXPECT_NE(check_classes("x", a, "y", b).message().find("x (3): n0, n1, n2\n"), std::string::npos);
}

}  // namespace dlpipe::run
