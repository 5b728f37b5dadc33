"""A seed's plan: which job, who is hit, when and how, and what has to come of it. Pure."""

import dataclasses
import random
import signal

# The kinds of workers: a shell, Python with helpers and shared memory, a shell forked by the
# template that stands in for ddp-trainer, ddp-trainer itself.
KINDS = ("shell", "python", "template", "trainer")
VICTIMS = ("agent", "guard", "template", "worker", "child")
HANG_EXIT_CODE = 124
STOPPED_EXIT_CODE = 75
# SIGKILL, SIGTERM, SIGSTOP for good, SIGSTOP with a SIGCONT or a SIGKILL after it.
ACTIONS = ("kill", "stop", "freeze", "freeze and wake", "freeze and kill")


@dataclasses.dataclass
class Plan:
    seed: int
    kind: str
    backend: str  # how nodes meet: "static", or "c10d", whose store node 0 hosts
    min_nodes: int  # fewer than there are: the job goes on without the others
    nproc: list  # workers of each node
    max_restarts: int
    victim: str
    action: str
    node: int  # where the victim is
    local_rank: int  # of the victim, or of the victim's parent
    when: str  # "start": while the job is being started; "run"; "end": while it ends by itself
    delay_s: float  # after that moment's beginning
    frozen_s: float

    @property
    def world_size(self):
        return sum(self.nproc)

    @property
    def rank(self):
        return sum(self.nproc[: self.node]) + self.local_rank

    @property
    def hangs(self):
        """Whether only --hang_timeout can end the job."""
        return self.victim == "worker" and self.action == "freeze"

    @property
    def deadly(self):
        """Whether the victim ends by what is done to it, or by what ddprun does about it."""
        if self.hangs:
            return True
        if self.action in ("freeze", "freeze and wake"):
            return False
        # The guard and the children of the workers take no notice of SIGTERM.
        return not (self.action == "stop" and self.victim in ("guard", "child"))

    @property
    def stops_well(self):
        """Whether the job is asked to save and to end."""
        return self.kind == "trainer" and self.action == "stop" and self.victim == "worker"

    @property
    def is_replaced(self):
        """Whether another node takes the place of the victim's."""
        lost = self.victim == "agent" and self.deadly and self.when == "run" and self.node > 0
        fixed_size = self.min_nodes == len(self.nproc)
        return lost and self.backend == "c10d" and fixed_size and self.max_restarts > 0

    @property
    def signal(self):
        return signal.SIGTERM if self.action == "stop" else signal.SIGKILL

    def __str__(self):
        nodes = "+".join(map(str, self.nproc))
        if self.min_nodes < len(self.nproc):
            nodes += f" (at least {self.min_nodes} node)"
        where = f"node {self.node}"
        if self.victim in ("worker", "child"):
            where += f" local rank {self.local_rank}"
        return (
            f"seed {self.seed}: {self.kind}, {self.backend}, {nodes} workers, "
            f"{self.max_restarts} restarts: {self.action} the {self.victim} of {where}, "
            f"{self.delay_s:.3f} s into its {self.when}"
        )


def make_plan(seed, kinds=KINDS, backends=("static", "c10d")):
    """The same seed gives the same plan for the same kinds and back ends."""
    draw = random.Random(seed)
    kind = draw.choices(kinds, [{"trainer": 1}.get(kind, 3) for kind in kinds])[0]
    # ddp-trainer's collectives stay on one node.
    nodes = 1 if kind == "trainer" else draw.choice((1, 1, 2))
    total = draw.randint(2, 4 if kind == "trainer" else 8)
    first = total if nodes == 1 else draw.randint(1, total - 1)
    nproc = [first] if nodes == 1 else [first, total - first]
    has_template = kind in ("template", "trainer")
    has_child = kind in ("shell", "python", "template")
    victims = [
        victim
        for victim in VICTIMS
        if (victim != "template" or has_template) and (victim != "child" or has_child)
    ]
    victim = draw.choices(victims, [{"worker": 4, "agent": 2}.get(v, 1) for v in victims])[0]
    node = draw.randrange(nodes)
    when = draw.choice(("start", "run", "run", "run", "end"))
    # A node that is gone before the others have met it is waited for, for minutes and rightly.
    # Others than the agent are not there yet.
    if when == "start" and (nodes == 2 or victim not in ("agent", "template")):
        when = "run"
    if when == "end" and kind == "trainer":
        when = "run"
    # A job waits for ever for an agent that is frozen for good, or for a template that has forked
    # nobody yet. A frozen worker is found by --hang_timeout, unless others go on: the shells do,
    # they look for a file; and on two nodes those of the other one would look as if they hung too.
    found = nodes == 1 and kind in ("python", "trainer")
    waits = victim == "agent" or when == "start" or (victim == "worker" and not found)
    weights = (4, 2, 0 if waits else 2, 1, 2)
    backend = draw.choice(backends) if nodes > 1 else "static"
    return Plan(
        seed=seed,
        kind=kind,
        backend=backend,
        min_nodes=draw.randint(1, nodes) if backend == "c10d" else nodes,
        nproc=nproc,
        max_restarts=draw.choice((0, 0, 1, 2)),
        victim=victim,
        action=draw.choices(ACTIONS, weights)[0],
        node=node,
        local_rank=draw.randrange(nproc[node]),
        when=when,
        delay_s=draw.uniform(0, {"start": 0.04, "run": 0.3, "end": 0.03}[when]),
        frozen_s=draw.uniform(0.05, 0.4),
    )


def job_fails(plan):
    """Whether the job has to end badly, as far as that follows from the plan."""
    if not plan.deadly:
        return False
    if plan.victim == "agent":
        goes_on = plan.node > 0 and plan.min_nodes < len(plan.nproc)
        return not goes_on and not plan.is_replaced
    return plan.victim == "worker" and (plan.stops_well or plan.max_restarts == 0)


def accepted_codes(plan):
    """The exit codes that each node's ddprun may have, as Popen has them: a list of sets."""
    deadly = HANG_EXIT_CODE if plan.hangs else 128 + plan.signal
    if not plan.deadly or plan.victim in ("guard", "child"):
        codes = [{0} for _ in plan.nproc]
    elif plan.stops_well:
        codes = [{STOPPED_EXIT_CODE} for _ in plan.nproc]
    elif plan.victim == "worker":
        codes = [{0} if plan.max_restarts else {deadly} for _ in plan.nproc]
    elif plan.victim == "template":
        codes = [{0} for _ in plan.nproc]
        if plan.when == "start":
            # Before it has forked the ranks, nobody else can.
            codes = [{0, 1} for _ in plan.nproc]
    elif plan.action == "stop":
        codes = [{deadly} for _ in plan.nproc]
        if plan.kind == "trainer":
            codes = [{STOPPED_EXIT_CODE} for _ in plan.nproc]
        elif plan.kind == "template":
            # Shells do not save; where there are none yet, or several nodes, nobody knows.
            codes = [{STOPPED_EXIT_CODE, deadly} for _ in plan.nproc]
        if plan.when == "start":
            codes[plan.node].add(-plan.signal)  # before it had its handlers
    else:
        codes = [{1} for _ in plan.nproc]
        codes[plan.node] = {-plan.signal}
    if plan.victim == "agent" and plan.deadly and not job_fails(plan):
        codes = [accepted if node == plan.node else {0} for node, accepted in enumerate(codes)]
    if plan.when == "end":
        # A signal that comes too late changes nothing.
        codes = [accepted | {0} for accepted in codes]
    return codes
