#!/bin/bash
# A real SLURM cluster of several nodes on one machine, for tests. It leaves nothing behind.
#
#   cluster.sh start [N | LIST]     starts it (default 2 -> node[1-2]); nothing if it runs already
#   cluster.sh stop                 ends it and removes its files; logs stay until the next start
#   cluster.sh exec CMD...          runs CMD on the submit host ("ctl"), which has sbatch and srun
#   cluster.sh node NAME CMD...     runs CMD on a node, outside of SLURM
#   cluster.sh wait JOB [SECONDS]   waits for the end of a job and prints its final state
#   cluster.sh cut|heal NAME        takes the node's network link down | up
#   cluster.sh kill NAME            kills every process of the node: peers see closed sockets
#   cluster.sh power-off NAME       cuts, then kills: peers see silence
#   cluster.sh boot NAME            starts a killed node again
#   cluster.sh status               says whether it runs, and what sinfo says
#
# SLURM itself notices a dead node after 10 to 35 s, or at once after
# `exec scontrol update nodename=NAME state=down reason=test`.
#
# Every node is a set of namespaces (net, uts, mount, pid, ipc) of its own, in one outer set that
# has the bridge and slurmctld. No namespace has a name, no device is made in the caller's network
# namespace, and killing the one recorded process takes everything with it. "exec" does not enter
# the outer pid namespace: CMD keeps the caller's pid, so signals reach it. "node" does: CMD ends
# with the node, but a signal to the wrapper does not reach it.
#
# Needs root, or unprivileged user namespaces; no systemd and no munge. Changes no system file.
#
# Variables:
#   SLURMLAB_DIR     folder of the state, one for each cluster, at most 60 characters
#   SLURMLAB_CPUS    CPUs that each node declares (4)
#   SLURMLAB_GPUS    fake GPUs of a node (0)
#   SLURMLAB_AUTH    none or munge (none)
#   SLURMLAB_CONF    further lines of slurm.conf
#   SLURMLAB_USERNS  1: uses a user namespace (the default if not root)
#   SLURMLAB_TMP     "private": each node has a /tmp of its own, as real nodes have
#   SLURMLAB_SHARE   with it: folders below /tmp that all nodes see, with ':' between them
set -u
export PATH=$PATH:/usr/sbin:/sbin
self=$(readlink -f "$0")
D=${SLURMLAB_DIR:-/tmp/slurmlab-$(id -u)}
NET=198.18.77 # of RFC 2544; exists only inside the namespaces
export SLURMLAB_DIR=$D SLURM_CONF=$D/etc/slurm.conf

die() { echo "cluster.sh: $*" >&2; exit 1; }
need() { command -v "$1" >/dev/null || die "no $1 (apt-get install slurm-wlm iproute2)"; }

# A pid is recorded with its start time, so a reused number is never taken for ours.
starttime() { local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
              set -- ${s##*) }; [ "$1" != Z ] && echo "${20}"; }
alive() {
    local p t
    read -r p t 2>/dev/null <"$1" && [ -n "$p" ] && [ "$(starttime "$p")" = "$t" ]
}
record() { echo "$1 $(starttime "$1")" >"$2.new" && mv "$2.new" "$2"; } # record PID FILE
waitfor() { # waitfor SECONDS COMMAND...
    local end=$((SECONDS + $1))
    until "${@:2}"; do
        [ $SECONDS -le $end ] || return 1
        sleep 0.02
    done
}
dead() { ! alive "$1"; }
killwait() {
    local p t
    alive "$1" || return 0
    read -r p t <"$1"
    kill -9 "$p" 2>/dev/null
    waitfor 10 dead "$1"
}
up() { alive "$D/run/init.pid"; }
usernsflag() {
    [ "$(readlink "/proc/$1/ns/user")" = "$(readlink /proc/self/ns/user)" ] ||
        echo '--user --preserve-credentials'
}
# Runs a command in the outer namespaces, without the one of pids.
inside() {
    local p t
    read -r p t <"$D/run/init.pid"
    exec nsenter -t "$p" $(usernsflag "$p") -n -u -m -i -- \
        bash -c 'cd "$0" 2>/dev/null; exec "$@"' "$PWD" "$@"
}
shim() { [ ! -e "$D/run/setgroups.so" ] || echo "env LD_PRELOAD=$D/run/setgroups.so"; }
# Inside: runs a process that ends with the cluster.
captive() {
    local p t
    read -r p t <"$D/run/init.pid"
    nsenter -t "$p" -p -- "$@"
}

write_conf() { # write_conf NODE...
    local n i=0 gres=
    mkdir -p "$D"/{etc,state,spool,log,run} && chmod 755 "$D"
    printf '%s\n' '127.0.0.1 localhost' '::1 localhost' "$NET.1 ctl" >"$D/etc/hosts"
    sed '/^hosts:/d' /etc/nsswitch.conf >"$D/etc/nsswitch.conf"
    echo 'hosts: files' >>"$D/etc/nsswitch.conf"
    # A GPU needs a device file: /dev/null is bound over these.
    if [ "${SLURMLAB_GPUS:-0}" -gt 0 ]; then
        gres="Gres=gpu:$SLURMLAB_GPUS"; mkdir -p "$D/dev"
        for ((i = 0; i < SLURMLAB_GPUS; i++)); do : >"$D/dev/gpu$i"; done
        echo "Name=gpu File=$D/dev/gpu[0-$((SLURMLAB_GPUS - 1))]" >"$D/etc/gres.conf"
    fi
    {
        cat <<CONF
ClusterName=slurmlab
SlurmctldHost=ctl($NET.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/${SLURMLAB_AUTH:-none}
CredType=cred/${SLURMLAB_AUTH:-none}
StateSaveLocation=$D/state
SlurmdSpoolDir=$D/spool/%n
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmdPidFile=$D/run/slurmd-%n.pid
SlurmctldLogFile=$D/log/slurmctld.log
SlurmdLogFile=$D/log/slurmd-%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=10
KillWait=5
CONF
        [ "${SLURMLAB_AUTH:-none}" = munge ] && echo "AuthInfo=socket=$D/run/munge.socket"
        [ -n "$gres" ] && echo GresTypes=gpu
        [ -n "${SLURMLAB_CONF:-}" ] && printf '%s\n' "$SLURMLAB_CONF"
        i=0
        for n; do
            i=$((i + 1)); addr=$NET.$((i + 10))
            echo "NodeName=$n NodeAddr=$addr CPUs=${SLURMLAB_CPUS:-4} $gres State=UNKNOWN"
            echo "$addr $n" >>"$D/etc/hosts"
        done
        echo 'PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP'
    } >"$D/etc/slurm.conf"
    printf '%s\n' "$@" >"$D/etc/nodes"
    # Sorted, so that a folder comes before those in it.
    [ "${SLURMLAB_TMP:-}" != private ] ||
        printf '%s\n' "$D" "${SLURMLAB_SHARE:-}" | tr : '\n' | sed '/^$/d' | sort -u >"$D/etc/share"
}

expand() { # N or a list of nodes -> one name a line
    case $1 in *[!0-9]*) set -- "$1" ;; *) set -- "node[1-$1]" ;; esac
    local t
    t=$(mktemp -d) # scontrol does not run without a slurm.conf
    printf '%s\n' ClusterName=x 'SlurmctldHost=x(127.0.0.1)' AuthType=auth/none \
        CredType=cred/none NodeName=x 'PartitionName=p Nodes=x' >"$t/slurm.conf"
    SLURM_CONF=$t/slurm.conf scontrol show hostnames "$1"; local rc=$?
    rm -rf "$t"; return $rc
}

start() {
    local nodes p
    for p in slurmctld slurmd scontrol ip unshare nsenter; do need $p; done
    nodes=$(expand "${1:-2}") && [ -n "$nodes" ] || die "bad node list: $1"
    if up && [ -e "$D/run/ready" ]; then
        [ "$nodes" = "$(cat "$D/etc/nodes")" ] && { echo "already up"; return; }
        die "up with other nodes: stop it first"
    fi
    stop # what an interrupted start has left
    [ ${#D} -le 60 ] || die "SLURMLAB_DIR is too long for the sockets below it"
    [ -e "$D/.slurmlab" ] || [ -z "$(ls -A "$D" 2>/dev/null)" ] ||
        die "$D is not empty, and this script did not make it"
    mkdir -p "$D" && [ -O "$D" ] && : >"$D/.slurmlab" || die "cannot use $D"
    rm -rf "${D:?}"/{etc,state,spool,log,run,dev}
    write_conf $nodes
    local u=
    if [ "$(id -u)" != 0 ] || [ -n "${SLURMLAB_USERNS:-}" ]; then
        # setgroups() is forbidden there, and the daemons insist on it.
        u='--user --map-root-user'
        need cc
        echo 'int setgroups(unsigned long n, const void *g) { return 0; }
              int initgroups(const char *u, unsigned g) { return 0; }' |
            cc -shared -fPIC -w -fno-builtin -x c -o "$D/run/setgroups.so" - ||
            die "no shim for setgroups"
    fi
    setsid unshare $u --mount --uts --ipc --net --pid --fork --kill-child \
        bash "$self" __init "$D/run/init.pid" ctl </dev/null >"$D/log/init.log" 2>&1 &
    waitfor 10 up || die "no namespaces: $(cat "$D/log/init.log")"
    if ! (inside bash "$self" __up) </dev/null; then
        cat "$D/log/up.log" >&2
        grep -h fatal "$D"/log/slurm*.log >&2
        stop
        die "did not come up, see $D/log"
    fi
}

# The first process of a set of namespaces. The caller's /proc is still mounted, so /proc/self/stat
# has the pid as the caller sees it, like all recorded pids. Because it ignores SIGCHLD, the kernel
# reaps adopted orphans.
init() { # init PIDFILE NAME
    local me _
    read -r me _ </proc/self/stat
    hostname "$2"
    ip link set lo up
    mount --bind "$D/etc/hosts" /etc/hosts
    # No name server, nor systemd-resolved by its socket.
    mount --bind "$D/etc/nsswitch.conf" /etc/nsswitch.conf
    mount -t tmpfs -o mode=1777 tmpfs /dev/shm
    local f
    [ "$2" != ctl ] || for f in "$D"/dev/gpu*; do
        [ ! -e "$f" ] || mount --bind /dev/null "$f"
    done
    # A fresh /sys, so that /sys/class/net is the node's. Keeps cgroups.
    mkdir -p "$D/run/cg"
    mount --rbind /sys/fs/cgroup "$D/run/cg" && mount -t sysfs sysfs /sys &&
        mount --move "$D/run/cg" /sys/fs/cgroup 2>/dev/null
    if [ "$2" != ctl ] && [ -e "$D/etc/share" ]; then
        # Holds the shared folders open while a new /tmp hides them.
        local i d fd dirs fds=()
        mapfile -t dirs <"$D/etc/share"
        for d in "${dirs[@]}"; do exec {fd}<"$d" && fds+=("$fd"); done
        mount -t tmpfs -o mode=1777 tmpfs /tmp
        for i in "${!dirs[@]}"; do
            d=${dirs[i]}
            [ -d "$d" ] || { mkdir -p "$d" && mount -c --rbind "/proc/self/fd/${fds[i]}" "$d"; }
        done
    fi
    record "$me" "$1"
    [ "$2" = ctl ] || mount -t proc proc /proc
    cd /
    exec env --ignore-signal=CHLD sleep infinity
}

bring_up() { # inside the outer namespaces
    local n
    exec 3>&1 >"$D/log/up.log" 2>&1
    ip link add br0 type bridge && ip addr add "$NET.1/24" dev br0 && ip link set br0 up ||
        return 1
    if [ "${SLURMLAB_AUTH:-none}" = munge ]; then
        (umask 077; head -c 128 /dev/urandom >"$D/etc/munge.key")
        captive $(shim) munged --key-file="$D/etc/munge.key" --socket="$D/run/munge.socket" \
            --pid-file="$D/run/munged.pid" --seed-file="$D/run/munge.seed" \
            --log-file="$D/log/munged.log" 3>&- || return 1
    fi
    captive $(shim) slurmctld -i -c 3>&- || return 1
    for n in $(cat "$D/etc/nodes"); do boot "$n" 3>&- || return 1; done
    waitfor 30 all_idle || return 1
    : >"$D/run/ready"
    exec >&3; sinfo
}

all_idle() {
    local s
    s=$(timeout 2 sinfo -h -N -o %t 2>/dev/null) && [ -n "$s" ] && ! grep -qvx idle <<<"$s"
}

boot() { # boot NODE, inside the outer namespaces
    local f=$D/run/node.$1 i p t
    i=$(nodeno "$1") || exit 1
    alive "$f" && return
    rm -f "$f"
    captive bash -c \
        'setsid unshare --mount --uts --ipc --net --pid --fork --kill-child bash "$@" &' \
        - "$self" __init "$f" "$1" </dev/null >>"$D/log/init-$1.log" 2>&1
    waitfor 10 alive "$f" || { cat "$D/log/init-$1.log"; return 1; }
    read -r p t <"$f"
    ip link del "v$i" 2>/dev/null # a node that was killed a moment ago has left it
    ip link add "v$i" type veth peer name eth0 netns "/proc/$p/ns/net" &&
        ip link set "v$i" master br0 up &&
        nsenter -t "$p" -n \
            bash -c "ip addr add $NET.$((i + 10))/24 dev eth0 && ip link set eth0 up" &&
        nsenter -t "$p" -n -u -m -i -p $(shim) slurmd </dev/null >>"$D/log/init-$1.log" 2>&1 &&
        forget_neighbours
}

# Otherwise a failed look-up of an address answers "no route to host" for seconds.
forget_neighbours() {
    local f p t
    ip neigh flush dev br0
    for f in "$D"/run/node.*; do
        alive "$f" && read -r p t <"$f" && nsenter -t "$p" -n ip neigh flush dev eth0
    done 2>/dev/null
    return 0
}

nodeno() {
    local i
    i=$(grep -nxF -- "$1" "$D/etc/nodes" | cut -d: -f1)
    [ -n "$i" ] || die "no node $1"
    echo "$i"
}

stop() {
    killwait "$D/run/init.pid" || die "could not end $(cat "$D/run/init.pid")"
    [ ! -e "$D/.slurmlab" ] || rm -rf "${D:?}"/{state,spool,run,dev}
}

cmd=${1:-help}; [ $# -gt 0 ] && shift
case $cmd in
    start) start "$@" ;;
    stop) stop ;;
    __init) init "$@" ;;
    __up) bring_up ;;
    __in) # the rest runs inside the outer namespaces
        c=$1
        shift
        i=$(nodeno "$1") || exit 1
        f=$D/run/node.$1
        case $c in
            node)
                shift
                alive "$f" || die "the node is down"
                read -r p t <"$f"
                exec nsenter -t "$p" -n -u -m -i -p -- \
                    bash -c 'cd "$0" 2>/dev/null; exec "$@"' "$PWD" "$@" ;;
            cut) ip link set "v$i" down ;;
            heal) ip link set "v$i" up && forget_neighbours ;;
            kill) killwait "$f" ;;
            power-off) ip link set "v$i" down 2>/dev/null; killwait "$f" ;;
            boot) boot "$1" ;;
        esac ;;
    node | cut | heal | kill | power-off | boot)
        up || die "not up"
        [ $# -gt 0 ] || die "$cmd: no node name"
        inside bash "$self" __in "$cmd" "$@" ;;
    exec) up || die "not up"; [ $# -gt 0 ] || set -- "${SHELL:-bash}"; inside "$@" ;;
    wait) up || die "not up"; [ $# -gt 0 ] || die "wait: no job id"
        end=$((SECONDS + ${2:-120}))
        while :; do
            s=$("$self" exec scontrol -o show job "$1" |
                sed -n 's/.*JobState=\([A-Z_]*\).*/\1/p;q')
            case $s in
                '') exit 1 ;;
                PENDING | CONFIGURING | RUNNING | COMPLETING | SUSPENDED | STOPPED) ;;
                RESIZING | SIGNALING | STAGE_OUT | REQUEUED) ;;
                *) echo "$s"; exit ;;
            esac
            [ $SECONDS -lt $end ] || { echo "$s"; exit 124; }
            sleep 0.1
        done ;;
    status) up || { echo down; exit 1; }; inside sinfo -N -l ;;
    *) sed -n '2,/^set -u/{/^set -u/!s/^# \{0,1\}//p}' "$self" ;;
esac
