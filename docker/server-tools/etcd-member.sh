# Every start of a member, in BusyBox's shell: `etcd-member.sh NAME PEER_URL OTHERS CLUSTER [etcd's flags]`. OTHERS are the
# endpoints of the other members, CLUSTER is what --initial-cluster takes.
#
# A member that has lost its data cannot come back as itself: it would break the votes it has given (the others answer
# "has already been bootstrapped"). Its operator removes it and adds a new one in its place, and so does this. That takes
# the others' majority: where a majority has lost its data, nobody comes back.
set -eu
name=$1 url=$2 others=$3 cluster=$4
shift 4
joined=/tmp/member-joined # outlives the data
state=new
ctl() { etcdctl --endpoints="$others" --dial-timeout=1s --command-timeout=2s "$@"; }
if [ -e "$joined" ] && [ ! -d /data/etcd/member ]; then
    state=existing
    export ETCDCTL_API=3
    echo "$name has lost its data: it waits for a majority of the others ($others) to take in a new member" >&2
    while :; do
        # id, status, name, peer URLs, client URLs, is a learner
        for id in $(ctl member list | awk -F', ' -v url="$url" '$4 == url { print $1 }'); do
            ctl member remove "$id" || true
        done
        if added=$(ctl member add "$name" --peer-urls="$url"); then
            cluster=$(printf '%s\n' "$added" | sed -n 's/^ETCD_INITIAL_CLUSTER="\(.*\)"$/\1/p')
            break
        fi
        sleep 0.1
    done
    unset ETCDCTL_API
fi
touch "$joined"
exec etcd --name "$name" --data-dir /data/etcd --initial-cluster "$cluster" --initial-cluster-state "$state" \
    --initial-advertise-peer-urls "$url" "$@"
