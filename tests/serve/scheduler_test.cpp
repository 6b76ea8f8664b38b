// Which images form a batch, in which order, and who is answered when.
#include "serve/scheduler.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "tests/io/formats/scratch.h"
#include "tests/serve/small_model.h"

namespace dlpipe::serve {

using namespace std::chrono_literals;

namespace {

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() : model_(load("m")), other_(load("other")) {}

  std::shared_ptr<const ServedModel> load(const std::string& name) {
    test::write_small_model(folder_ / "m.dlg");
    auto model = std::make_shared<ServedModel>();
    model->name = name;
    model->version = "1";
    run::PredictOptions options;
    options.model.weights = folder_ / "m.dlg";
    options.batch = 4;
    model->predictor = std::make_unique<run::Predictor>(options);
    model->counters = std::make_shared<ModelCounters>();
    return model;
  }

  /// A job of images with these colours. Its name is noted when it is done.
  Job job(const std::string& name, const std::vector<uint8_t>& colours, Clock::duration limit = 1h) {
    Job made{.model = model_, .images = {}, .deadline = Clock::now() + limit, .done = {}};
    for (const uint8_t colour : colours) made.images.push_back(test::small_image(colour));
    auto promise = std::make_shared<std::promise<JobResult>>();
    results_.push_back(promise->get_future());
    made.done = [this, name, promise](JobResult&& result) {
      {
        const MutexLock lock(mutex_);
        order_ += name;
      }
      promise->set_value(std::move(result));
    };
    return made;
  }

  /// Holds the scheduler's thread until the end of its scope, so that jobs wait together.
  class Pause {
   public:
    Pause(SchedulerTest& test, Scheduler& scheduler) {
      Job job = test.job("", {0});
      test.results_.pop_back();
      auto begun = std::make_shared<std::promise<void>>();
      std::future<void> has_begun = begun->get_future();
      job.done = [begun, end = end_.get_future().share()](JobResult&&) {
        begun->set_value();
        end.wait();
      };
      EXPECT_TRUE(scheduler.submit(std::move(job)));
      has_begun.wait();
    }
    ~Pause() { end_.set_value(); }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    std::promise<void> end_;
  };

  JobResult result(size_t i) { return results_.at(i).get(); }

  test::ScratchFolder folder_;
  std::shared_ptr<const ServedModel> model_, other_;
  std::vector<std::future<JobResult>> results_;
  Mutex mutex_;
  std::string order_ DLPIPE_GUARDED_BY(mutex_);
};

}  // namespace

TEST_F(SchedulerTest, AnswersEachImageInItsPlace) {
  Scheduler scheduler({.max_batch = 4});
  std::vector<std::vector<float>> alone;
  for (const uint8_t colour : {10, 90, 200}) {
    ASSERT_TRUE(scheduler.submit(job("a", {colour})));
    alone.push_back(result(alone.size()).predictions.at(0).answers);
  }
  EXPECT_NE(alone[0], alone[1]);
  {
    const Pause pause(*this, scheduler);
    // 3 + 7 images in batches of 4: each job is in several batches.
    ASSERT_TRUE(scheduler.submit(job("b", {200, 10, 90})));
    ASSERT_TRUE(scheduler.submit(job("c", {10, 10, 90, 200, 90, 10, 200})));
  }
  const JobResult b = result(3), c = result(4);
  ASSERT_TRUE(b.status.ok() && c.status.ok());
  const std::vector<size_t> of_b = {2, 0, 1}, of_c = {0, 0, 1, 2, 1, 0, 2};
  ASSERT_EQ(b.predictions.size(), of_b.size());
  ASSERT_EQ(c.predictions.size(), of_c.size());
  for (size_t i = 0; i < of_b.size(); ++i) EXPECT_EQ(b.predictions[i].answers, alone[of_b[i]]) << i;
  for (size_t i = 0; i < of_c.size(); ++i) EXPECT_EQ(c.predictions[i].answers, alone[of_c[i]]) << i;
  EXPECT_EQ(scheduler.waiting(), 0);
  // 3 alone, the pause's, and 10 in batches of 4, 4 and 2.
  EXPECT_EQ(model_->counters->batches, 3 + 1 + 3);
  EXPECT_EQ(model_->counters->images, 3 + 1 + 10);
}

TEST_F(SchedulerTest, TheEarliestDeadlineIsFirst) {
  Scheduler scheduler({.max_batch = 1});
  {
    const Pause pause(*this, scheduler);
    ASSERT_TRUE(scheduler.submit(job("c", {1}, 3h)));
    ASSERT_TRUE(scheduler.submit(job("a", {1}, 1h)));
    Job of_other = job("b", {1}, 2h);
    of_other.model = other_;
    ASSERT_TRUE(scheduler.submit(std::move(of_other)));
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(result(i).status.ok());
  const MutexLock lock(mutex_);
  EXPECT_EQ(order_, "abc");
}

TEST_F(SchedulerTest, ABatchHasOneModel) {
  Scheduler scheduler({.max_batch = 8});
  {
    const Pause pause(*this, scheduler);
    for (int i = 0; i < 4; ++i) {
      Job one = job("x", {1}, std::chrono::hours(i + 1));
      if (i % 2 == 1) one.model = other_;
      ASSERT_TRUE(scheduler.submit(std::move(one)));
    }
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(result(i).status.ok());
  EXPECT_EQ(model_->counters->batches, 2);  // the pause's, and one
  EXPECT_EQ(other_->counters->batches, 1);
}

TEST_F(SchedulerTest, ABatchWaitsUntilItIsFullOrTheDelayIsOver) {
  Scheduler scheduler({.max_batch = 3, .max_delay = 1h});
  ASSERT_TRUE(scheduler.submit(job("a", {1})));
  ASSERT_TRUE(scheduler.submit(job("b", {2})));
  EXPECT_EQ(results_[0].wait_for(50ms), std::future_status::timeout);
  ASSERT_TRUE(scheduler.submit(job("c", {3})));
  for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(result(i).status.ok());
  EXPECT_EQ(model_->counters->batches, 1);
  Scheduler brief({.max_batch = 3, .max_delay = 1ms});
  ASSERT_TRUE(brief.submit(job("d", {1})));
  EXPECT_TRUE(result(3).status.ok());
}

TEST_F(SchedulerTest, AJobWhoseDeadlinePassedIsNotRun) {
  Scheduler scheduler({.max_batch = 2});
  {
    const Pause pause(*this, scheduler);
    ASSERT_TRUE(scheduler.submit(job("a", {1, 2, 3}, -1s)));
    ASSERT_TRUE(scheduler.submit(job("b", {1})));
  }
  EXPECT_EQ(result(0).status.code(), ErrorCode::kCancelled);
  EXPECT_TRUE(result(1).status.ok());
  EXPECT_EQ(scheduler.waiting(), 0);
  EXPECT_EQ(model_->counters->images, 2);
}

TEST_F(SchedulerTest, ADelayDoesNotOutliveTheDeadline) {
  Scheduler scheduler({.max_batch = 2, .max_delay = 1h});
  ASSERT_TRUE(scheduler.submit(job("a", {1}, 20ms)));
  const JobResult answer = result(0);  // in time or not
  EXPECT_TRUE(answer.status.ok() || answer.status.code() == ErrorCode::kCancelled);
}

TEST_F(SchedulerTest, AFullQueueRefuses) {
  Scheduler scheduler({.max_batch = 2, .max_images = 4});
  {
    const Pause pause(*this, scheduler);
    ASSERT_TRUE(scheduler.submit(job("a", {1, 2, 3})));
    EXPECT_FALSE(scheduler.submit(job("b", {1, 2})));
    ASSERT_TRUE(scheduler.submit(job("c", {1})));
    EXPECT_FALSE(scheduler.submit(job("d", {1})));
    EXPECT_EQ(scheduler.waiting(), 4);
  }
  EXPECT_TRUE(result(0).status.ok());
  EXPECT_TRUE(result(2).status.ok());
  EXPECT_EQ(scheduler.waiting(), 0);
  EXPECT_TRUE(scheduler.submit(job("e", {1})));
  EXPECT_TRUE(result(4).status.ok());
  EXPECT_GT(model_->counters->batches, 0);
}

TEST_F(SchedulerTest, AQueueWithoutRoomForBytesRefusesAllButOneJob) {
  const uint64_t size = test::small_image(1).bytes->size();
  Scheduler scheduler({.max_batch = 2, .max_bytes = size / 2});
  {
    const Pause pause(*this, scheduler);
    EXPECT_TRUE(scheduler.submit(job("a", {1, 1})));  // larger than the queue, which is empty
    EXPECT_FALSE(scheduler.submit(job("b", {1})));
  }
  EXPECT_TRUE(result(0).status.ok());
}

TEST_F(SchedulerTest, AnImageThatCannotBeDecodedHarmsNoOther) {
  Scheduler scheduler({.max_batch = 4});
  Job mixed = job("a", {1, 2, 3});
  mixed.images[1].bytes = "not an image";
  ASSERT_TRUE(scheduler.submit(std::move(mixed)));
  const JobResult answer = result(0);
  ASSERT_TRUE(answer.status.ok());
  EXPECT_TRUE(answer.predictions[0].error.empty());
  EXPECT_FALSE(answer.predictions[1].error.empty());
  EXPECT_TRUE(answer.predictions[2].error.empty());
}

TEST_F(SchedulerTest, ItsEndAnswersAllThatWaits) {
  std::optional<Scheduler> scheduler;
  scheduler.emplace(Scheduler::Options{.max_batch = 2, .max_delay = 1h});
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(scheduler->submit(job("x", {1})));
  scheduler.reset();
  for (size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(results_[i].wait_for(0s), std::future_status::ready) << i;
    EXPECT_TRUE(result(i).status.ok());
  }
}

TEST_F(SchedulerTest, InAHurryItDoesNotWaitForFullBatches) {
  Scheduler scheduler({.max_batch = 2, .max_delay = 1h});
  ASSERT_TRUE(scheduler.submit(job("a", {1})));
  scheduler.hurry();
  EXPECT_TRUE(result(0).status.ok());
  ASSERT_TRUE(scheduler.submit(job("b", {1})));
  EXPECT_TRUE(result(1).status.ok());
}

TEST_F(SchedulerTest, GivingUpAnswersWithoutRunning) {
  Scheduler scheduler({.max_batch = 2, .max_delay = 1h});
  ASSERT_TRUE(scheduler.submit(job("a", {1})));
  scheduler.give_up();
  const JobResult answer = result(0);
  EXPECT_EQ(answer.status.code(), ErrorCode::kCancelled);
  EXPECT_NE(answer.status.message().find("the server stops"), std::string::npos);
  EXPECT_EQ(model_->counters->images, 0);
}

// A model that was unloaded or replaced lives until its jobs are answered.
TEST_F(SchedulerTest, AJobKeepsItsModel) {
  Scheduler scheduler({.max_batch = 2});
  {
    const Pause pause(*this, scheduler);
    Job one = job("a", {1});
    one.model = other_;
    other_.reset();
    ASSERT_TRUE(scheduler.submit(std::move(one)));
  }
  EXPECT_TRUE(result(0).status.ok());
}

}  // namespace dlpipe::serve
