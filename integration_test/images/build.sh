#!/bin/sh
# Builds the server images of the integration tests from Debian's packages, for machines that reach no container
# registry. Where a registry is reachable this script is not needed: the tests then use the public images.
#
#   redislimiter-test/redis:7.0    Debian 12 (bookworm)
#   redislimiter-test/redis:8.0    Debian 13 (trixie)
#   redislimiter-test/valkey:8.1   Debian 13 (trixie)
#   redislimiter-test/chromium     Debian 13 (trixie), for machines that have no browser
#
# With arguments only those are built: build.sh chromium, build.sh redis:8.0.
#
# Images that exist are kept: remove one (docker rmi) to have it built anew. Arguments of servers work as with the public
# images:
#
#   docker run IMAGE                                        the server, with its defaults, saving nothing
#   docker run IMAGE --maxmemory 10mb                       the server with these arguments
#   docker run IMAGE redis-server --port 7000 --save 60 1   this program with these arguments
#   docker run IMAGE redis-sentinel /tmp/sentinel.conf      the same, as a sentinel
#
# The browser's are those of chromium itself: docker run --network host IMAGE --remote-debugging-port=0 about:blank
#
# Environment: DEBIAN_MIRROR (default: the one apt uses), TMPDIR (3 GB are needed there for the browser, 600 MB for
# servers), DOCKER (default: docker), CI (if set, a missing debootstrap is installed by apt-get).
# Needs debootstrap, and root, because debootstrap does.
set -eu

DOCKER=${DOCKER:-docker}
work=

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

# debootstrap can leave /proc mounted when it dies half way: removing the tree must not follow it.
clean_up() {
	[ -n "$work" ] || return 0
	umount "$work"/*/proc "$work"/*/sys 2>/dev/null || true
	rm -rf --one-file-system "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM

have_image() {
	"$DOCKER" image inspect "$1" >/dev/null 2>&1
}

find_mirror() {
	mirror=${DEBIAN_MIRROR:-}
	if [ -z "$mirror" ] && command -v apt-get >/dev/null; then
		# shellcheck disable=SC2016 # apt-get expands it, not the shell
		mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
			grep -E '^https?://.*/debian/?$' | head -n 1) || true
	fi
	echo "${mirror:-http://deb.debian.org/debian}"
}

# debootstrap downloads with wget, which does not know of a proxy that only apt was told about.
use_apt_proxy() {
	[ -z "${http_proxy:-}" ] || return 0
	command -v apt-config >/dev/null || return 0
	proxy=
	eval "$(apt-config shell proxy Acquire::http::Proxy)"
	case "$proxy" in
	http*) export http_proxy="$proxy" ;;
	esac
}

need_debootstrap() {
	[ "$(id -u)" = 0 ] || fail "must run as root: debootstrap makes device files and changes its root"
	if ! command -v debootstrap >/dev/null; then
		[ -n "${CI:-}" ] || fail "debootstrap is missing: install it (apt-get install debootstrap debian-archive-keyring)"
		command -v apt-get >/dev/null || fail "debootstrap is missing, and there is no apt-get to install it with"
		apt-get update -qq >&2 || fail "apt-get update failed"
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			debootstrap debian-archive-keyring >/dev/null || fail "could not install debootstrap"
	fi
}

# The entry point. Protected mode would refuse every client from outside the container, and there is no password to
# set. Saving is off unless asked for, so that a killed server comes back empty, as most tests want it.
write_entry() {
	cat >"$1/usr/local/bin/server-entry" <<'ENTRY'
#!/bin/sh
set -e
case "${1:-}" in
'' | -* | *.conf) set -- "$SERVER" "$@" ;;
esac
case "$1" in
*-server | *-sentinel) ;;
*) exec "$@" ;;
esac
case " $* " in
*" --protected-mode "*) ;;
*) set -- "$@" --protected-mode no ;;
esac
case " $* " in
*-sentinel\ * | *" --sentinel "* | *" --save "*) ;;
*) set -- "$@" --save '' ;;
esac
exec "$@"
ENTRY
	chmod 755 "$1/usr/local/bin/server-entry"
}

# make_root NAME SUITE PACKAGE,PACKAGE...
make_root() {
	root=$work/$1
	[ ! -d "$root" ] || return 0
	need_debootstrap
	debootstrap --variant=minbase --include="$3" "$2" "$root" "$(find_mirror)" >"$work/$1.log" 2>&1 || {
		tail -n 20 "$work/$1.log" >&2
		fail "debootstrap of $2 failed; set DEBIAN_MIRROR if the mirror is not reachable"
	}
}

# add_packages DIRECTORY PACKAGE...: for those whose dependencies are beyond debootstrap.
add_packages() {
	root=$1
	shift
	mount -t proc proc "$root/proc" || fail "could not mount /proc for apt-get"
	DEBIAN_FRONTEND=noninteractive chroot "$root" sh -c \
		'apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@"' sh "$@" >"$work/packages.log" 2>&1 || {
		tail -n 20 "$work/packages.log" >&2
		fail "could not install $*"
	}
	umount "$root/proc"
}

# The same binary is server and sentinel; only the name differs, and Debian has it in a package of its own.
add_servers() {
	write_entry "$1"
	mkdir -m 1777 -p "$1/data"
	for family in redis valkey; do
		if [ -x "$1/usr/bin/$family-server" ]; then
			ln -sf "$family-server" "$1/usr/bin/$family-sentinel"
		fi
	done
}

# import NAME IMAGE CHANGE...: the root of that name becomes the image, with the changes.
import() {
	name=$1 image=$2
	shift 2
	for change; do
		shift
		set -- "$@" --change "$change"
	done
	tar -C "$work/$name" --exclude='./proc/*' --exclude='./sys/*' --exclude='./dev/*' \
		--exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./var/log/*' \
		--exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' \
		-c . >"$work/rootfs.tar" || fail "could not pack $name"
	"$DOCKER" import "$@" "$work/rootfs.tar" "$image" >/dev/null || fail "docker import of $image failed"
	rm -f "$work/rootfs.tar"
}

# wanted IMAGE: it was asked for, or everything was, and it is not there.
wanted() {
	case " $only " in
	'  ' | *" ${1#redislimiter-test/} "*) ;;
	*) return 1 ;;
	esac
	if have_image "$1"; then
		echo "$1: present"
		return 1
	fi
	started=$(date +%s)
	[ -n "$work" ] || work=$(mktemp -d)
}

done_with() { echo "$1: built in $(($(date +%s) - started)) s"; }

# server IMAGE SUITE PACKAGES SERVER
server() {
	wanted "$1" || return 0
	make_root "$2" "$2" "$3"
	add_servers "$work/$2"
	import "$2" "$1" "ENV SERVER=$4" 'WORKDIR /data' 'EXPOSE 6379' "USER ${4%-server}" \
		'ENTRYPOINT ["/usr/local/bin/server-entry"]' "CMD [\"$4\"]"
	done_with "$1"
}

# A container gives Chromium no namespaces to make a sandbox of, and 64 MB of shared memory.
browser() {
	wanted "$1" || return 0
	make_root browser trixie ca-certificates
	add_packages "$work/browser" chromium fonts-inter fonts-dejavu-core
	import browser "$1" 'USER nobody' 'WORKDIR /tmp' 'ENV HOME=/tmp' \
		'ENTRYPOINT ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--user-data-dir=/tmp/profile"]'
	done_with "$1"
}

"$DOCKER" version >/dev/null 2>&1 || fail "the Docker engine does not answer ($DOCKER version)"
use_apt_proxy
only=$*
server redislimiter-test/redis:7.0 bookworm redis-server redis-server
server redislimiter-test/redis:8.0 trixie redis-server,valkey-server redis-server
server redislimiter-test/valkey:8.1 trixie redis-server,valkey-server valkey-server
browser redislimiter-test/chromium
