// Trains a built-in model: train DATA [RUN_DIRECTORY]. DATA holds the datasets `train` and `val`, as
// `dlpipe ingest IMAGES DATA --split 0.8,0.2` writes them.
#include <dlpipe/session.h>

#include <cstdio>

int main(int count, char** arguments) try {
  if (count < 2) {
    std::fprintf(stderr, "usage: train DATA [RUN_DIRECTORY]\n");
    return 2;
  }
  dlpipe::run::TrainConfig config;  // the options of `dlpipe train`
  config.data = arguments[1];
  config.model = "lenet";
  config.augment = "rrc(28) hflip";
  config.val_augment = "resize(32) center_crop(28)";
  config.batch = 32;
  config.epochs = 3;
  config.lr = 0.02;
  if (count > 2) config.out = arguments[2];  // checkpoints, metrics and the receipt

  const dlpipe::run::TrainOutcome outcome = dlpipe::run::Session(config).train();
  std::printf("%lld steps, loss %.4f\n", static_cast<long long>(outcome.steps), outcome.loss);
  if (outcome.last_validation)
    std::printf("validation: top1 %.1f %%\n", 100 * outcome.last_validation->result.value("top1"));
  return 0;
} catch (const dlpipe::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
