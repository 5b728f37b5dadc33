"""A seed's plan: which runs, what is done to them, and which of them have to agree. Pure."""

import dataclasses
import json
import random
import signal

# Kinds of comparisons: ways to distribute a run; two nodes and one; a run that resumes another way;
# a run whose processes are killed. Other kinds check that all ranks refuse random keys with one
# message, or that a run stays as it is if it is not resumed. The second word is what is trained.
KINDS = (
    ("ways", ""), ("nodes", ""), ("resume", ""), ("refused", ""), ("kills", ""),
    ("any keys", ""), ("ways", ""), ("resume", "plugin"), ("ways", "images"), ("resume", ""),
)
# Relative; of weights to the largest. Of a gradient that is hardly more than rounding the optimizer
# makes a step of some size.
TOLERANCES = {"loss": 1e-5, "grad_norm": 1e-4, "weights": 2e-4}
TOLERANCES_OF_16_BITS = {"loss": 1e-3, "grad_norm": 0.3, "weights": 0.2}
STEP_SAMPLES = 24
TRANSFORMERS = ("gpt", "llama", "bert")
SCHEDULES = ("cosine", "linear", "constant", "cosine_with_restarts", "polynomial", "inverse_sqrt",
             "warmup_stable_decay", "step", "multi_step")
# By model: words of names of which a part of the model is left to train.
FREEZABLE = {"gpt": ("wte", "h.0", "ln"), "llama": ("embed_tokens", "layers.0", "mlp"),
             "bert": ("embeddings", "layer.0", "bias"), "cnn": ("conv",), "resnet18": ("layer1",)}
TABLES = ("mlp", "linear")


@dataclasses.dataclass
class Way:
    """How processes share a run out."""

    type: str
    ranks: int = 1
    sharers: int = 1  # of a step's samples
    tensor: int = 1
    stages: int = 1
    sections: dict = dataclasses.field(default_factory=dict)
    nodes: int = 1

    @property
    def has_bits_of_ddp(self):
        """docs/strategies.md, docs/overlap.md."""
        ring = self.sections.get("comm", {}).get("algorithm") == "ring" and self.ranks > 2
        return self.type in ("ddp", "zero1") and self.tensor * self.stages == 1 and not ring

    def __str__(self):
        nodes = f" on {self.nodes} nodes" if self.nodes > 1 else ""
        return f"{self.ranks} x {self.type}{nodes} {json.dumps(self.sections)}"


@dataclasses.dataclass
class Plan:
    seed: int
    kind: str
    sections: dict  # of the config, the same for all ways
    samples: int
    held_out: int  # samples of the validation
    ways: list  # the first is what the others are compared with
    same_bits: bool = False
    tolerances: dict = dataclasses.field(default_factory=lambda: TOLERANCES)
    how: str = ""  # a resume: "checkpoint", "stop" or "fewer steps"; what is refused
    hits: list = dataclasses.field(default_factory=list)

    def title(self):
        ways = ", ".join(f"{way.ranks} x {way.type}" + " on 2 nodes" * (way.nodes == 2)
                         for way in self.ways)
        return f"seed {self.seed}: {self.kind} {self.how}: {self.sections['model']['type']}, {ways}"

    def __str__(self):
        lines = [f"{self.samples} samples and {self.held_out}, {json.dumps(self.sections)}"]
        lines += [f"  {way}" for way in self.ways]
        lines += [f"  {hit}" for hit in self.hits]
        return "\n".join(lines)


def merge(*parts):
    """Sections of a config; later ones rule."""
    merged = {}
    for part in parts:
        for section, keys in part.items():
            merged.setdefault(section, {}).update(keys)
    return merged


def all_ways():
    yield Way("single")
    for ranks in (1, 2, 3, 4):
        yield Way("ddp", ranks, ranks)
    for devices in (2, 3):
        where = {"strategy": {"devices": ["cpu"] * devices}}
        yield Way("dp", 1, devices, sections=where)
        for kind in ("pipeline", "model_parallel"):
            yield Way(kind, 1, 1, stages=devices, sections=where)
    for ranks in (2, 3, 4):
        for tensor in (1, 2, 3, 4):
            for stages in (1, 2, 3, 4):
                if ranks % (tensor * stages) == 0:
                    yield from meshes(ranks, tensor, stages)


def meshes(ranks, tensor, stages):
    sharers = ranks // (tensor * stages)
    sizes = {"tensor_parallel_size": tensor}
    if stages > 1:
        sizes["pipeline_parallel_size"] = stages
        yield Way("pipeline", ranks, sharers, tensor, stages, {"strategy": sizes})
        yield Way("zero1", ranks, sharers, tensor, stages, {"strategy": sizes})
        return
    if tensor > 1:
        yield Way("tensor_parallel", ranks, sharers, tensor, 1, {"strategy": sizes})
    for kind in ("zero1", "zero2", "zero3"):
        for shard in sorted({0, sharers, 2 if sharers == 4 else 0}):
            yield Way(kind, ranks, sharers, tensor, 1, {"strategy": {**sizes, "shard_size": shard}})


def draw_model(draw, precision, what):
    kinds = ("mlp", "mlp", "linear", "cnn", "gpt", "gpt", "llama", "llama", "bert", "bert")
    if what:
        kinds = ("cnn",) if what == "images" else ("plugin",)
    elif precision == "fp32" and draw.random() < 0.03:
        kinds = ("resnet18",)
    model = {"type": draw.choice(kinds)}
    if model["type"] in TRANSFORMERS:
        model.update(hidden_size=16, num_hidden_layers=draw.choice((1, 2, 3, 4)),
                     num_attention_heads=4, intermediate_size=draw.choice((0, 24)))
    if model["type"] in ("gpt", "llama"):
        model["tie_word_embeddings"] = draw.random() < 0.7
    if model["type"] == "llama":
        model["num_key_value_heads"] = draw.choice((1, 2, 4))
        if draw.random() < 0.3:
            model["rope_scaling"] = {"rope_type": draw.choice(("linear", "dynamic")), "factor": 2.0}
    if model["type"] == "cnn":
        model.update(channels=draw.choice(([4], [4, 8])), hidden_size=16)
    return model


def draw_data(draw, model, what):
    """The sections "model" and "data". Files are those that differential_test.py writes."""
    data = {"shuffle": draw.random() < 0.8, "dataloader_num_workers": draw.choice((0, 1, 2))}
    if draw.random() < 0.5:
        data["data_seed"] = draw.randrange(10)
    kind = model["type"]
    if kind == "plugin":
        model["options"] = {"fault": ""}
        if draw.random() < 0.5:
            data.update(format="plugin", options={"fault": "none, waves"})
        else:
            data.update(format="csv", label_column="y", target_type="number",
                        feature_columns=["a", "b"])
    elif kind in TABLES:
        data["format"] = "random" if kind == "mlp" and draw.random() < 0.5 else "csv"
        classes = draw.random() < 0.5
        if data["format"] == "csv":
            data.update(label_column="kind" if classes else "y", standardize=draw.random() < 0.5,
                        target_type="class" if classes else "number",
                        feature_columns=["a", "b", "c", "colour"])
        hidden = [draw.randint(3, 12) for _ in range(draw.randint(0, 4))]
        ends = (6, 3) if data["format"] == "random" or classes else (6, 1)
        if kind == "mlp":
            model.update(layer_sizes=[ends[0], *hidden, ends[1]],
                         activation=draw.choice(("relu", "gelu", "none")))
        if data["format"] == "random":
            data.update(input_size=6, target_size=3)
    elif kind == "bert":
        data.update(format="text_classification", tokenizer="tokenizer", max_seq_length=12)
        model.update(num_labels=3, vocab_size=16)
    elif kind in ("gpt", "llama"):
        data["format"] = draw.choice(("text", "tokens"))
        data["max_seq_length"] = draw.choice((8, 12))
        model["vocab_size"] = 256 if data["format"] == "text" else 64
    else:
        data["format"] = "image_folder" if what == "images" else "idx"
        if what == "images":
            data.update(image_size=8, image_mean=[0.5], image_std=[0.25])
        if what == "images" and draw.random() < 0.3:
            data["random_resized_crop"] = True
        elif draw.random() < 0.3:
            data.update(random_crop_padding=1, random_flip=True)
    return {"model": model, "data": data}


def draw_training(draw, precision, model, data):
    optimizer = {"type": draw.choice(("adamw", "adam", "sgd", "adagrad")),
                 "weight_decay": draw.choice((0, 0.1))}
    if optimizer["type"] == "sgd":
        optimizer.update(learning_rate=0.02, momentum=draw.choice((0, 0.9)))
        optimizer["nesterov"] = optimizer["momentum"] > 0 and draw.random() < 0.5
    else:
        # A large eps, so that gradients that are only rounding errors make no large steps.
        optimizer.update(learning_rate=draw.choice((1e-3, 3e-3)), eps=1e-5)
    if draw.random() < 0.3:
        optimizer["ema_decay"] = draw.choice((0.5, 0.9))
    scheduler = {"lr_scheduler_type": draw.choice(SCHEDULES),
                 "warmup_steps": draw.choice((0, 2, 0.25)), "warmup_from_zero": draw.random() < 0.5}
    if scheduler["lr_scheduler_type"] == "multi_step":
        scheduler.update(milestones=draw.choice(([2, 5], [0.5, 0.75])), gamma=0.5)
    if scheduler["lr_scheduler_type"] == "step":
        scheduler.update(step_size=draw.choice(("2 steps", "1 epochs")), gamma=0.5)
    training = {"max_grad_norm": draw.choice((0, 0.5, 10)), "precision": precision,
                "matmul_engine": "default"}  # not what is the fastest at the moment
    if model["type"] in FREEZABLE and draw.random() < 0.4:
        training["freeze"] = [draw.choice(FREEZABLE[model["type"]])]
    if model["type"] in FREEZABLE and draw.random() < 0.4:
        optimizer["learning_rate_factors"] = {draw.choice(FREEZABLE[model["type"]]):
                                              draw.choice((0.3, 3))}
    if model["type"] in FREEZABLE and optimizer["weight_decay"] and draw.random() < 0.4:
        optimizer["weight_decay_factors"] = {draw.choice(FREEZABLE[model["type"]]):
                                             draw.choice((0, 3))}
    if data.get("target_type") == "class" or model["type"] in ("cnn", "bert", "gpt"):
        training["label_smoothing"] = draw.choice((0, 0, 0.1))
        if model["type"] != "gpt" and not training["label_smoothing"] and draw.random() < 0.4:
            training.update(draw.choice(({"balance_classes": True},
                                         {"class_weights": [0.5, 1, 4]})))
    return {"optimizer": optimizer, "scheduler": scheduler, "training": training}


def draw_length(draw):
    if draw.random() < 0.5:
        return {"max_steps": draw.randint(3, 10)}
    return {"max_epochs": draw.choice((1, 2, 2.5))}


def draw_options(draw, way, sections):
    """Keys that change nothing of what a way computes."""
    strategy, training, comm = {}, {}, {}
    numbers = sections["training"]
    early = numbers["max_grad_norm"] == 0 and numbers["precision"] != "fp16"
    in_one_process = "devices" in way.sections.get("strategy", {})
    if way.type in ("ddp", "tensor_parallel", "zero1", "pipeline") and not in_one_process:
        if way.type == "ddp" and draw.random() < 0.1:
            strategy["bucket_cap_mb"] = "auto"
        elif draw.random() < 0.6:
            strategy.update(bucket_cap_mb=draw.choice((0.0001, 0.002, 1)),
                            first_bucket_mb=draw.choice((0.0001, 1)))
        strategy["overlap"] = draw.choice(("backward", "backward", "none"))
        if way.type == "ddp" and early:
            strategy["overlap"] = draw.choice(("backward", "none", "step", "both"))
            if strategy["overlap"] == "backward":
                strategy["optimizer_in_backward"] = draw.random() < 0.5
        if draw.random() < 0.3:
            comm["algorithm"] = draw.choice(("reduce_broadcast", "all_to_all", "ring"))
        if way.type == "ddp" and draw.random() < 0.3:
            strategy[draw.choice(("find_unused_parameters", "static_graph"))] = True
    if way.type == "zero2" and draw.random() < 0.5:
        strategy["bucket_cap_mb"] = draw.choice((0.0001, 0.002))
    if way.stages > 1 and way.type != "model_parallel":
        strategy["pipeline_schedule"] = draw.choice(("1f1b", "gpipe"))
        strategy["pipeline_micro_batches"] = draw.choice((0, 1, 2))
    if draw.random() < 0.3 and sections["model"]["type"] != "plugin":
        training["gradient_checkpointing"] = True
    parts = {"strategy": strategy, "training": training, "comm": comm}
    return {name: keys for name, keys in parts.items() if keys}


def fits(way, plan):
    model = plan.sections["model"]
    heads = [model[key] for key in ("num_attention_heads", "num_key_value_heads") if key in model]
    if way.tensor > 1 and (model["type"] not in TRANSFORMERS + TABLES
                           or any(count % way.tensor for count in heads)
                           or min(model.get("layer_sizes", [])[1:-1] or [4]) < way.tensor):
        return False
    parts = {"mlp": len(model.get("layer_sizes", [])) - 1, "linear": 1,
             "cnn": len(model.get("channels", []))}.get(model["type"],
                                                       model.get("num_hidden_layers", 1))
    if (plan.kind == "nodes" and way.ranks % 2) or (model["type"] == "plugin" and
                                                    way.type in ("dp", "zero3")):
        return False
    if "freeze" in plan.sections["training"] and way.stages > 1:
        return False
    weighs = plan.sections["training"].keys() & {"class_weights", "balance_classes"}
    if weighs and "devices" in way.sections.get("strategy", {}):
        return False
    # Where one of several processes is hit there are several.
    return way.stages <= parts and (plan.kind != "kills" or way.ranks > 1)


def goes_with(way, traits):
    """Whether the way keeps the promise of these traits."""
    if "whole models" in traits and (way.tensor * way.stages > 1 or
                                     way.type not in ("ddp", "zero1", "zero2", "zero3")):
        return False
    if "statistics" in traits and way.sharers > 2:
        return False
    return "hook" not in traits or (way.type in ("ddp", "zero1") and way.ranks > 1)


class Drawer:
    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.seed = seed

    def plan(self):
        draw = self.draw
        kind, what = KINDS[self.seed % len(KINDS)]
        precision = draw.choice(("fp32",) * 6 + ("bf16", "fp16"))
        parts = draw_data(draw, draw_model(draw, precision, what), what)
        model, data = parts["model"], parts["data"]
        samples = 12 * draw.randint(3, 6)
        sections = merge(parts, draw_training(draw, precision, model, data), {
            "run": {"seed": draw.randrange(1000), **draw_length(draw)},
            "report": {"logging_steps": 1},
            "checkpoint": {"save_steps": 0},
        })
        plan = Plan(self.seed, kind, sections, samples, draw.choice((0, 7, 12)), [])
        if data["format"] in ("random", "plugin"):
            plan.held_out = 0
        if plan.held_out:
            sections["evaluation"] = {"eval_steps": draw.choice((0, 2, 3)),
                                      "eval_on_start": draw.random() < 0.3}
            if draw.random() < 0.3:
                data["max_eval_samples"] = draw.choice((1, 5))
            sections["training"]["per_device_eval_batch_size"] = draw.choice((0, 1, 5))
        self.draw_ways(plan)
        if kind == "resume":
            self.draw_resume(plan)
        elif kind == "nodes":
            self.draw_nodes(plan)
        elif kind == "refused":
            self.draw_refused(plan)
        elif kind == "kills":
            self.draw_kills(plan)
        elif kind == "any keys":
            self.draw_any_keys(plan)
        return plan

    def draw_ways(self, plan):
        traits = self.draw_traits(plan)
        self.draw_order(plan, "twins" in traits)
        micro_batches = self.draw.choice((1, 1, 2, 3))
        if "virtual" in traits:
            return self.draw_virtual_ranks(plan, micro_batches)
        if "statistics" in traits:
            # Statistics of two or three samples would hardly be defined.
            micro_batches = 1
            plan.sections["data"]["dataloader_drop_last"] = True
        ways = [way for way in all_ways() if fits(way, plan) and goes_with(way, traits)]
        avoided = set()
        if "twins" in traits:
            avoided.add("dp")  # which pads no epoch
        if plan.sections.get("strategy", {}).get("comm_hook") == "post_local_sgd":
            avoided.add("zero1")
        chosen = [self.draw_way(ways, avoided | ({"single"} if plan.kind == "ways" else set()))]
        if plan.kind == "resume":
            chosen.append(self.draw_way([way for way in ways if "twins" not in traits
                                         or way.sharers == chosen[0].sharers], avoided))
        for way in chosen:
            options = draw_options(self.draw, way, plan.sections)
            if "hook" in traits:
                options.get("strategy", {}).pop("overlap", None)
            way.sections = merge(way.sections, options)
        sharers = chosen[0].sharers
        plan.ways = [Way("ddp", sharers, sharers) if "twins" in traits else Way("single"), *chosen]
        drops = "dataloader_drop_last" in plan.sections["data"]  # of each micro-batch
        free = "twins" not in traits and not drops
        if drops and any(way.sharers == 3 for way in chosen):
            micro_batches = 1
        for way in plan.ways:
            self.share_out(way, self.draw.choice((1, 2, 3)) if free else micro_batches)
        plan.same_bits = "twins" in traits and all(way.has_bits_of_ddp for way in plan.ways)
        training = plan.sections["training"]
        if training["precision"] == "fp16" and not plan.same_bits:
            # The sums of some overflow where those of others just do not.
            training["init_loss_scale"] = 1024
        rounds = "hook" in traits or training["precision"] != "fp32"
        plan.tolerances = TOLERANCES_OF_16_BITS if rounds else TOLERANCES

    def draw_traits(self, plan):
        """Words. "twins": what is compared with is not one process, but as many ranks of ddp,
        where ranks pad an epoch, draw random numbers, have statistics of their own, round what
        they send."""
        draw, sections = self.draw, plan.sections
        model = sections["model"]
        if model["type"] == "resnet18":
            return {"twins", "whole models", "statistics"}
        if draw.random() < 0.6:
            return set()
        trait = draw.choice(("", "dropout", "hook", "virtual")[:3 if plan.kind == "nodes" else 4])
        if trait == "hook":
            hooks = ("fp16", "bf16", "power_sgd", "post_local_sgd")
            exact = plan.kind == "kills" and sections["training"]["precision"] != "fp16"
            hook = draw.choice(hooks if exact else hooks[:2])
            sections["strategy"] = {"comm_hook": hook}
            if hook not in hooks[:2]:
                sections["strategy"][hook + "_start_step"] = 5
            if hook == "post_local_sgd":
                sections["optimizer"].pop("ema_decay", None)
        draws = trait == "dropout" or (trait == "virtual" and draw.random() < 0.5)
        if draws and model["type"] in ("gpt", "bert", "cnn"):
            model["dropout"] = 0.1
        return {"twins", trait} | ({"whole models"} if trait else set())

    def draw_way(self, ways, avoided):
        kind = self.draw.choice(sorted({way.type for way in ways}))
        way = self.draw.choice([way for way in ways if way.type == kind])
        if way.type in avoided:
            return self.draw_way([way for way in ways if way.type not in avoided], ())
        return dataclasses.replace(way)

    def share_out(self, way, micro_batches):
        if STEP_SAMPLES % (micro_batches * way.sharers):
            micro_batches = 1
        way.sections = merge(way.sections, {
            "strategy": {"type": way.type},
            "training": {"gradient_accumulation_steps": micro_batches,
                         "per_device_train_batch_size":
                             STEP_SAMPLES // micro_batches // way.sharers}})

    def draw_order(self, plan, twins):
        draw, data = self.draw, plan.sections["data"]
        if draw.random() < 0.4:
            data["sample_order"] = "world_size_independent"
        elif twins:
            data["sampler_drop_last"] = draw.random() < 0.3
        if twins or "sample_order" in data:
            plan.samples += draw.choice((0, 1, 5))
        if draw.random() < 0.25:
            data["dataloader_drop_last"] = True
        if data["format"] == "text_classification" and data["shuffle"] and "sample_order" in data:
            data["length_grouped"] = draw.random() < 0.5

    def draw_virtual_ranks(self, plan, micro_batches):
        count = self.draw.choice((2, 3, 4))
        least = 2 if plan.kind == "kills" else 1
        for _ in range(3 if plan.kind == "resume" else 2):
            way = Way("ddp", self.draw.randint(least, count), count,
                      sections={"training": {"virtual_ranks": count}})
            options = draw_options(self.draw, way, plan.sections)
            options.pop("comm", None)
            way.sections = merge(way.sections, options)
            self.share_out(way, micro_batches)
            plan.ways.append(way)
        plan.same_bits = True

    def draw_resume(self, plan):
        draw, sections = self.draw, plan.sections
        plan.how = draw.choice(("checkpoint", "stop", "fewer steps"))
        steps = draw.randint(6, 10)
        if plan.how == "stop":
            steps = 300 if sections["model"]["type"] in TABLES else 60
        if plan.how == "stop" and plan.tolerances is TOLERANCES_OF_16_BITS:
            # In so many steps two runs with 16-bit numbers go far apart.
            sections["training"].update(precision="fp32", init_loss_scale=65536)
            sections.pop("strategy", None)
            plan.tolerances = TOLERANCES
        if plan.how == "fewer steps":
            sections["scheduler"].update(lr_scheduler_type="constant", warmup_steps=2)
        sections["run"] = {"seed": sections["run"]["seed"], "max_steps": steps}
        sections["checkpoint"] = {"save_steps": draw.randint(1, 4), "save_total_limit": 0}
        plan.hits = [{"step": draw.randint(1, steps - 2)}]

    def draw_nodes(self, plan):
        way = plan.ways[-1]
        way.sections.pop("comm", None)  # how a node's ranks sum among themselves
        plan.ways = [way, dataclasses.replace(way, nodes=2)]
        plan.same_bits = True  # docs/hosts.md
        plan.how = self.draw.choice(("whole", "goes on"))
        plan.sections["checkpoint"]["save_steps"] = 1
        plan.sections["checkpoint"]["save_total_limit"] = 0
        plan.hits = [{"step": self.draw.randint(1, 9)}]

    def draw_refused(self, plan):
        draw, sections = self.draw, plan.sections
        plan.ways = plan.ways[-1:]
        steps = draw.randint(3, 6)
        sections["run"] = {"seed": sections["run"]["seed"], "max_steps": steps}
        sections["checkpoint"] = {"save_steps": draw.randint(1, 2), "save_total_limit": 0}
        plan.hits = [{"from": draw.choice(("run", "checkpoint", "auto")),
                      "step": draw.randint(1, steps), "byte": draw.random()}]
        plan.how = draw.choice(sorted(refusals(plan)))

    def draw_kills(self, plan):
        draw, sections = self.draw, plan.sections
        plan.ways = plan.ways[-1:]
        way = plan.ways[0].sections
        if way.get("comm", {}).get("algorithm") == "ring":
            # Its sums follow from the sizes, and those that are found are others each time.
            if way["strategy"].get("bucket_cap_mb") == "auto":
                way["strategy"]["bucket_cap_mb"] = 1
        tables = sections["model"]["type"] in TABLES
        steps = draw.randint(200, 400) if tables else draw.randint(30, 60)
        sections["run"] = {"seed": sections["run"]["seed"], "max_steps": steps, "name": "run",
                           "output_dir": "runs/{name}"}
        sections["checkpoint"] = {"save_steps": draw.choice((1, 4, 9)),
                                  "save_total_limit": draw.choice((1, 2)),
                                  "save_best": draw.choice(("", "loss")) if plan.held_out else ""}
        sections["report"]["logging_steps"] = draw.choice((1, 1, 3))
        for _ in range(draw.randint(1, 3)):
            plan.hits.append({
                "who": draw.choice(("worker", "worker", "agent", "all")),
                "signal": signal.SIGKILL,
                "after_start": None,
                "after_steps": draw.random(),
                "later_s": draw.choice((0, draw.uniform(0, 0.03))),
                "rank": draw.randrange(4),
                "again": draw.choice(("resume", "auto")),
                "restarts": draw.choice((0, 2, 2)),
            })

    def draw_any_keys(self, plan):
        draw = self.draw
        way = plan.ways[-1]
        plan.ways = [way]
        plan.same_bits = False
        for _ in range(draw.choice((1, 1, 2, 3))):
            way.sections = merge(way.sections, draw.choice(ANY_KEYS)(draw))
        if draw.random() < 0.3:
            way.ranks = draw.randint(1, 5)


def refusals(plan):
    """{name: sections} that make another run of it. None: without the key."""
    sections, batch = plan.sections, plan.ways[0].sections["training"]
    model, data, optimizer = sections["model"], sections["data"], sections["optimizer"]
    # Not as many samples.
    found = {"data": {"data": {"train_files": ["other"]}}, "model only": {}, "damaged": {}}
    if data["format"] == "random":
        found["data"] = {"data": {"num_samples": plan.samples + 12}}
    if data["shuffle"]:
        found["order"] = {"data": {"data_seed": 77}}
    if model["type"] in TRANSFORMERS:
        found["model"] = {"model": {"intermediate_size": 40}}
    elif model["type"] == "cnn":
        found["model"] = {"model": {"hidden_size": 24}}
    if optimizer["type"] == "sgd":
        found["optimizer"] = {"optimizer": {"momentum": 0 if optimizer["momentum"] else 0.9,
                                            "nesterov": False}}
    size = batch["per_device_train_batch_size"]
    if size % 2 == 0 and "virtual_ranks" not in batch:
        found["step"] = {"training": {"per_device_train_batch_size": size // 2},
                         "run": {"max_steps": None, "max_epochs": 50}}
    return found


def one_of(section, key, *values):
    return lambda draw: {section: {key: draw.choice(values)}}


# Keys that do not go together with some config, model or number of ranks.
ANY_KEYS = (
    one_of("strategy", "type", "single", "ddp", "dp", "zero1", "zero2", "zero3", "pipeline",
           "tensor_parallel", "model_parallel"),
    one_of("strategy", "comm_hook", "fp16", "bf16", "power_sgd", "post_local_sgd"),
    one_of("strategy", "overlap", "step", "both", "none"),
    one_of("strategy", "optimizer_in_backward", True),
    one_of("strategy", "find_unused_parameters", True),
    one_of("strategy", "static_graph", True),
    one_of("strategy", "check_finite", True),
    one_of("strategy", "broadcast_buffers", False),
    one_of("strategy", "bucket_cap_mb", "auto", 0.001),
    one_of("strategy", "first_bucket_mb", 0.001),
    one_of("strategy", "shard_size", 2, 3),
    one_of("strategy", "tensor_parallel_size", 2, 3, 5),
    one_of("strategy", "pipeline_parallel_size", 2, 3, 5),
    one_of("strategy", "pipeline_schedule", "gpipe"),
    one_of("strategy", "pipeline_micro_batches", 3, 100),
    one_of("strategy", "layers_per_stage", [1, 1], [2, 1, 1], [0, 2], [9, 9]),
    one_of("strategy", "devices", ["cpu"], ["cpu", "cpu"], ["cpu"] * 5),
    one_of("strategy", "output_device", 1),
    one_of("strategy", "loss", "parallel"),
    one_of("comm", "algorithm", "ring", "reduce_broadcast", "all_to_all"),
    one_of("training", "virtual_ranks", 1, 2, 3, 4),
    one_of("training", "precision", "bf16", "fp16"),
    one_of("training", "gradient_checkpointing", True),
    one_of("training", "label_smoothing", 0.1),
    one_of("training", "class_weights", [1, 2, 3], [2]),
    one_of("training", "balance_classes", True),
    one_of("training", "loss", "cross_entropy", "mse", "causal_lm"),
    one_of("training", "max_grad_norm", 0, 1),
    one_of("training", "per_device_train_batch_size", 1, 5, 50, 1000),
    one_of("training", "per_device_eval_batch_size", 0, 1, 100),
    one_of("training", "gradient_accumulation_steps", 1, 4, 50),
    one_of("data", "dataloader_drop_last", True),
    one_of("data", "sampler_drop_last", True),
    one_of("data", "sample_order", "world_size_independent", "torch"),
    one_of("data", "length_grouped", True),
    one_of("data", "validation_fraction", 0.1, 0.9),
    one_of("data", "max_train_samples", 1, 24),
    one_of("data", "max_eval_samples", 1, 100),
    one_of("evaluation", "eval_on_start", True),
    one_of("model", "num_attention_heads", 1, 3, 8),
    one_of("model", "hidden_size", 1, 12),
    one_of("model", "num_labels", 1, 2, 5),
    one_of("model", "dropout", 0.5),
    one_of("run", "recovery", "peer", "none"),
    one_of("run", "max_steps", 0, 1, 3),
    one_of("run", "resume", "auto", "never", "no_such_folder"),
    one_of("report", "state_hashes", True),
    one_of("report", "logging_steps", 2, 1000),
    one_of("checkpoint", "save_steps", 1, "1 epoch", "0.01 s"),
    one_of("checkpoint", "save_best", "loss", "accuracy", "mse", "none"),
    one_of("checkpoint", "save_only_model", True),
    one_of("checkpoint", "save_at_end", False),
    one_of("evaluation", "metrics", ["accuracy"], ["perplexity", "mse"], ["f1_macro", "mcc"],
           ["roc_auc", "precision"], ["r2", "rmse"], ["confusion_matrix"]),
    one_of("evaluation", "sample_length", 5),
    one_of("optimizer", "momentum", 0.5),
    one_of("scheduler", "min_lr_ratio", 0.5),
)


def make_plan(seed):
    """The same seed gives the same plan."""
    return Drawer(seed).plan()
