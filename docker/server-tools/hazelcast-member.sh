# Every start of a member, in the image's bash, which has the network connections that BusyBox's shell lacks:
# `hazelcast-member.sh ADDRESS OTHERS CLUSTER JAVA_OPTIONS...`, with its configuration in $CONF. OTHERS are the addresses of
# the other members, separated by commas.
#
# The open-source edition keeps nothing on disk, so that a member that was killed comes back as another one, which is in
# the data part of the cluster and in no CP group. Its operator removes the old CP member and promotes the new one (manual,
# "CP Subsystem Management"), and so does this. That takes the others' majority: where a majority has gone, the CP groups
# are lost for good.
set -u
address=$1 others=${2//,/ } cluster=$3
shift 3
printf '%s' "$CONF" >/data/hazelcast.yaml

ask() { # ADDRESS METHOD PATH [BODY]: prints the answer's body; fails with 1 if the status is not 200, with 2 if none came
    local body=${4:-} line status='' length=0 told=''
    exec 3<>"/dev/tcp/$1/5701" || return 2
    printf '%s /hazelcast/rest/cp-subsystem/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s' \
        "$2" "$3" "$1" "${#body}" "$body" >&3
    while IFS= read -r -t 20 line <&3; do
        line=${line%$'\r'}
        case $line in
        '') break ;;
        HTTP/*) status=${line#* } ;;
        [Cc]ontent-[Ll]ength:*) length=${line#*: } ;;
        esac
    done
    [ "$length" -gt 0 ] && IFS= read -r -N "$length" -t 3 told <&3
    exec 3>&-
    printf '%s' "$told"
    [ -n "$status" ] || return 2
    [ "${status%% *}" = 200 ]
}

former() { # the id of the CP member that had this address, from whoever of the others answers; fails if nobody does
    local other told
    for other in $others; do
        told=$(ask "$other" GET members) && [ -n "$told" ] || continue
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
            ask "$other" POST "members/$gone/remove" "$cluster&" && gone='' && break
        done
        [ -n "$gone" ] && sleep 0.3
    done
    # Refused until this member has joined the others.
    until ask "$address" POST members "$cluster&" || ask "$address" GET members/local; do sleep 0.3; done
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
