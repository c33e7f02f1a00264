#!/bin/bash
# Every start of a member: `member ADDRESS OTHERS CLUSTER JAVA_OPTIONS...`, with its configuration in $CONF. OTHERS are the
# addresses of the other members, separated by commas.
#
# The open-source edition keeps nothing on disk, so that a member that was killed comes back as another one, which is in
# the data part of the cluster and in no CP group. Its operator removes the old CP member and promotes the new one (manual,
# "CP Subsystem Management"), and so does this. That takes the others' majority: where a majority has gone, the CP groups
# are lost for good.
set -u
address=$1 others=${2//,/ } cluster=$3
shift 3
printf '%s' "$CONF" >/data/hazelcast.yaml

ask() { # ADDRESS METHOD PATH [BODY]: prints the answer's body; fails if the status is not 200
    local body=${4:-} line status='' length=0 told=''
    exec 3<>"/dev/tcp/$1/5701" || return 1
    printf '%s /hazelcast/rest/cp-subsystem/%s HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\n\r\n%s' \
        "$2" "$3" "$1" "${#body}" "$body" >&3
    while IFS= read -r -t 3 line <&3; do
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
    [ "${status%% *}" = 200 ]
}

rejoin() {
    local other gone
    until ask "$address" GET members/local >/dev/null; do
        for other in $others; do
            gone=$(ask "$other" GET members | grep -o '"uuid":"[^"]*","address":"\['"$address"'\]' | cut -d'"' -f4)
            [ -n "$gone" ] && ask "$other" POST "members/$gone/remove" "$cluster&" && break
        done
        ask "$address" POST members "$cluster&"
        sleep 0.3
    done
} 2>/dev/null

joined=/var/lib/member-joined # outlives the program
[ -e "$joined" ] && rejoin >/dev/null &
touch "$joined"
# To where it is listened to: who leads is read from it.
exec java "$@" -cp /hazelcast/hazelcast.jar com.hazelcast.core.server.HazelcastMemberStarter 2>&1
