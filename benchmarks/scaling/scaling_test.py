"""Tests of the arithmetic and of what is read from runs; no dlpipe, MPI or root needed:

python3 -m unittest discover benchmarks/scaling -p '*_test.py'
"""

import math
import pathlib
import sys
import unittest

here = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(here))
import bubble  # noqa: E402
import chains  # noqa: E402
import delay_line  # noqa: E402
import launch  # noqa: E402
import model  # noqa: E402
import processes  # noqa: E402
import step_model  # noqa: E402


def a_machine(**more):
    values = {"forward_s_per_sample": 1.0, "backward_s_per_sample": 2.0, "beside_s": 0.5, "alpha_s": 0.0,
              "beta_s_per_byte": 1.0, "core_s_per_byte": 0.0}  # fmt: skip
    return step_model.Machine(**{**values, **more})


class StepModel(unittest.TestCase):
    def test_least_bytes_is_what_halving_and_doubling_sends(self):
        self.assertEqual([step_model.least_bytes(ranks, 8) for ranks in (1, 2, 4, 8)], [0, 8, 12, 14])

    def test_buckets_close_once_they_are_full_and_the_last_one_with_backward(self):
        layers = [(1, 30.0), (2, 10.0), (3, 10.0), (4, 50.0)]
        self.assertEqual(step_model.bucket_up(layers, 5), [(7, 0.6), (3, 1.0)])
        self.assertEqual(step_model.bucket_up(layers, 100), [(10, 1.0)])

    def test_a_bucket_that_closes_with_the_first_layer_leaves_no_empty_one(self):
        self.assertEqual(step_model.bucket_up([(5, 1.0), (5, 1.0)], 5), [(5, 0.5), (5, 1.0)])

    def test_one_rank_communicates_nothing(self):
        said = step_model.step(a_machine(alpha_s=9.0), 1, 1, [(4, 1.0)])
        self.assertEqual((said["step_s"], said["communication_s"], said["hidden_share"]), (3.5, 0.0, 1.0))

    def test_what_leaves_early_is_hidden_and_the_rest_is_waited_for(self):
        # Forward 1 s, backward 2 s; 1 byte is ready at 2 s and arrives at 3 s, 1 byte then takes until 4 s.
        said = step_model.step(a_machine(), 2, 1, [(1, 0.5), (1, 1.0)])
        self.assertEqual((said["step_s"], said["communication_s"], said["hidden_share"]), (4.5, 2.0, 0.5))

    def test_buckets_travel_one_after_another(self):
        said = step_model.step(a_machine(), 2, 1, [(3, 0.5), (1, 1.0)])
        self.assertEqual(said["step_s"], 2 + 3 + 1 + 0.5)

    def test_alpha_is_paid_for_every_exchange_of_every_bucket(self):
        there = a_machine(alpha_s=1.0, beta_s_per_byte=0.0)
        self.assertEqual(step_model.all_reduce_s(there, 8, 100), 6.0)
        self.assertEqual(step_model.step(there, 4, 1, [(1, 1.0), (1, 1.0)])["communication_s"], 8.0)

    def test_sending_makes_computing_longer(self):
        there = a_machine(core_s_per_byte=0.25, beta_s_per_byte=0.0)
        self.assertEqual(step_model.step(there, 2, 1, [(4, 1.0)])["step_s"], 3 + 1 + 0.5)

    def test_ranks_that_share_a_core_compute_in_turn(self):
        self.assertEqual(step_model.step(a_machine(beta_s_per_byte=0.0), 4, 1, [(4, 1.0)], 2.0)["step_s"], 7.0)


class Fit(unittest.TestCase):
    def test_finds_the_minimum_of_several_values(self):
        found = model.minimum(lambda p: math.log(p["a"] / 3) ** 2 + math.log(p["b"] / 0.02) ** 2, {"a": 1.0, "b": 1.0})
        self.assertAlmostEqual(found["a"], 3, delta=0.01)
        self.assertAlmostEqual(found["b"], 0.02, delta=0.0001)

    def test_a_machine_that_is_as_the_model_says_is_found_again(self):
        truth = {"forward_s_per_sample": 0.013, "beside_s": 0.03, "own_alpha_s": 5e-4, "wire_factor": 1.2,
                 "core_s_per_byte": 2e-9}  # fmt: skip
        record = {"layers": [(2e6, 1.0), (8e6, 1.0), (34e6, 1.0)], "cores": 2, "backward_over_forward": 2.0}
        record["measured"] = {
            model.label(setting): [{**model.predict(truth, setting, record), "hidden_share": 0.0}]
            for setting in [*model.FITTED, *model.PREDICTED]
        }
        _, errors = model.compared(record, model.fitted(record))
        self.assertLess(max(abs(error) for error in errors), 0.02)

    def test_no_setting_is_both_fitted_and_predicted(self):
        self.assertFalse(set(model.FITTED) & set(model.PREDICTED))
        self.assertEqual(len(set(model.PREDICTED)), 6)


LEDGER = {
    "steps": 4,
    "spans": {
        "start": {"seconds": 9.0},
        "forward": {"seconds": 1.0},
        "backward": {"seconds": 2.0},
        "collective": {"seconds": 1.0},
        "checkpoint": {"seconds": 5.0},
    },
    "communication": {"busy_seconds": 2.0, "waited_seconds": 1.0, "hidden_share": 0.5, "bytes_sent": 400},
}


class Ledger(unittest.TestCase):
    def test_start_and_checkpoints_are_no_part_of_a_step(self):
        self.assertEqual(launch.step_seconds(LEDGER), 1.0)
        self.assertNotIn("start", launch.spans_ms(LEDGER))

    def test_summary_is_of_one_step(self):
        done = launch.summary(LEDGER, {"batches_chain": "b", "parameters_chain": "p"}, 32)
        self.assertEqual((done["samples_per_s"], done["bytes_sent_per_step"], done["communication_ms"]), (32, 100, 500))


class Bubble(unittest.TestCase):
    def test_is_what_the_first_and_the_last_grain_leave_idle(self):
        self.assertEqual([bubble.bubble(2, grains) for grains in (1, 3)], [1 / 2, 1 / 4])
        self.assertEqual(bubble.bubble(1, 8), 0)

    def test_waited_is_the_ledgers_and_lost_is_beside_one_process(self):
        piped = {"steps": 2, "spans": {"forward": {"seconds": 3.0}, "collective": {"seconds": 1.0}}}
        alone = {"steps": 2, "spans": {"forward": {"seconds": 3.0}, "start": {"seconds": 9.0}}}
        self.assertEqual(bubble.shares(alone, piped), (0.25, 0.25))


class Tables(unittest.TestCase):
    def test_a_run_with_other_weights_is_said_to_be_another(self):
        one = {"steps": 2, "batches_chain": "b", "parameters_chain": "p"}
        rows, all_same = chains.rows_of("lenet", {1: one, 2: {**one, "parameters_chain": "q"}})
        self.assertFalse(all_same)
        self.assertEqual([row[-1] for row in rows], ["yes", "NO"])

    def test_weights_of_the_same_grains_are_compared_and_no_others(self):
        grains, ranks = [{"parameters_chain": "p"}], [{"parameters_chain": "p"}]
        by_name = {processes.ALONE: [{"parameters_chain": "other"}], processes.GRAINS: grains, processes.RANKS: ranks}
        self.assertTrue(processes.same_weights(by_name))
        self.assertFalse(processes.same_weights({**by_name, processes.RANKS: [{"parameters_chain": "q"}]}))
        self.assertIsNone(processes.same_weights({**by_name, processes.RANKS: [{"error": "no mpirun"}]}))

    def test_ratios_stand_beside_both_others(self):
        case = {**processes.parsed("resnet18:224:16"), "dtype": "f32"}
        rates = {processes.ALONE: 10.0, processes.RANKS: 9.5, processes.DDP: 5.0}
        results = {"resnet18 224 16 f32": {name: [{"samples_per_s": rate}] for name, rate in rates.items()}}
        lines = processes.rows([case], results, list(rates))
        self.assertIn("| 0.950 ", lines[3])
        self.assertIn("| 1.900 |", lines[3])


class DelayLine(unittest.TestCase):
    def test_packets_go_to_the_node_of_their_address(self):
        packet = bytes(delay_line.HEADER_BYTES) + b"\x45" + bytes(15) + b"\x0a\x4d\x00\x03" + b"data"
        self.assertEqual(delay_line.node_of(packet), 3)

    def test_whatever_else_a_device_sends_is_for_nobody(self):
        ipv6 = bytes(delay_line.HEADER_BYTES) + b"\x60" + bytes(39)
        self.assertEqual([delay_line.node_of(packet) for packet in (b"", ipv6)], [0, 0])
        elsewhere = bytes(delay_line.HEADER_BYTES) + b"\x45" + bytes(15) + b"\x08\x08\x08\x08"
        self.assertEqual(delay_line.node_of(elsewhere), 0)


if __name__ == "__main__":
    unittest.main()
