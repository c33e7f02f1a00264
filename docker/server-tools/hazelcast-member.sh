# Every start of a member, in BusyBox's shell: `hazelcast-member.sh ADDRESS OTHERS CLUSTER JAVA_OPTIONS...`, with its
# configuration in $CONF. OTHERS are the addresses of the other members, separated by commas.
#
# The open-source edition keeps nothing on disk, so that a member that was killed comes back as another one, which is in
# the data part of the cluster and in no CP group. Its operator removes the old CP member and promotes the new one (manual,
# "CP Subsystem Management"), and so does this. That takes the others' majority: where a majority has gone, the CP groups
# are lost for good.
set -u
address=$1 others=$(printf '%s' "$2" | tr , ' ') cluster=$3
shift 3
printf '%s' "$CONF" >/data/hazelcast.yaml

ask() { # ADDRESS PATH [BODY]: prints the answer's body; with a BODY it is a POST. Fails if the status is not 200.
    wget -q -T 20 -O - ${3:+--post-data="$3"} "http://$1:5701/hazelcast/rest/cp-subsystem/$2"
}

former() { # the id of the CP member that had this address, from whoever of the others answers; fails if nobody does
    local other told
    for other in $others; do
        told=$(ask "$other" members) && [ -n "$told" ] || continue
        printf '%s' "$told" | grep -o '"uuid":"[^"]*","address":"\['"$address"'\]' | cut -d'"' -f4
        return 0
    done
    return 1
}

rejoin() { # each step once: a second promotion while the first is under way would add and remove this very member
    local other gone
    until gone=$(former); do sleep 0.3; done
    while [ -n "$gone" ]; do
        for other in $others; do
            ask "$other" "members/$gone/remove" "$cluster&" && gone='' && break
        done
        [ -n "$gone" ] && sleep 0.3
    done
    # Refused until this member has joined the others.
    until ask "$address" members "$cluster&" || ask "$address" members/local; do sleep 0.3; done
} 2>/dev/null

joined=/tmp/member-joined # outlives the program
[ -e "$joined" ] && rejoin >/dev/null &
touch "$joined"
if [ -e /hazelcast/hazelcast.jar ]; then
    set -- -XX:SharedArchiveFile=/hazelcast/classes.jsa "$@" -cp /hazelcast/hazelcast.jar
else
    set -- "$@" -cp "${HZ_HOME:-/opt/hazelcast}/lib/*" # the official image
fi
# To where it is listened to: who leads is read from it.
exec java "$@" com.hazelcast.core.server.HazelcastMemberStarter 2>&1
