/*
 * Secrets of access control: the token that a command shows, where it is read from, and files that hold one.
 * What is read is wiped when it is not needed any more; a secret on the command line is overwritten there.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file.h"
#include "ctl/ctl.h"

#define TOKEN_BYTES_MAX 4096u

/* One byte after the other, up to the end of a line: what follows on standard input is for others. */
static bool
read_line(struct buf *out)
{
	uint8_t c;
	ssize_t n;

	while ((n = read(STDIN_FILENO, &c, 1)) == 1 || (n < 0 && errno == EINTR)) {
		if (n == 1 && c == '\n')
			break;
		if (n == 1)
			buf_u8(out, c);
	}
	return n >= 0;
}

/* May no other user read it?  A pipe is between the processes that hold its ends. */
static bool
is_private(int fd, const char *what, const char *path)
{
	struct stat st;

	if (fstat(fd, &st) != 0) {
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, path, strerror(errno));
		return false;
	}
	if (!S_ISREG(st.st_mode) || (st.st_mode & 077) == 0)
		return true;
	fprintf(stderr, "clusterctl: %s: %s: is accessible to others (mode %04o): chmod 600 %s\n", what, path,
	    (unsigned)(st.st_mode & 07777), path);
	return false;
}

/* Without the space around it; printable characters in one piece, since it becomes a header. */
static bool
trim(struct buf *secret)
{
	size_t begin = 0;

	while (secret->len > 0 && strchr(" \t\r\n", secret->data[secret->len - 1]) != NULL)
		secret->len--;
	while (begin < secret->len && strchr(" \t\r\n", secret->data[begin]) != NULL)
		begin++;
	buf_drop(secret, begin);
	for (size_t i = 0; i < secret->len; i++)
		if (secret->data[i] <= ' ' || secret->data[i] > '~')
			return false;
	return true;
}

bool
token_file_read(const char *what, const char *path, struct buf *out)
{
	bool input = strcmp(path, "-") == 0, good;
	const char *name = input ? "standard input" : path;
	int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);

	out->secret = true;
	if (fd >= 0 && !input && !is_private(fd, what, path)) {
		close(fd);
		return false;
	}
	good = fd >= 0 && (input ? read_line(out) : file_read_fd(fd, out) != TV_ESYS);
	if (!good)
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, name, strerror(errno));
	if (fd >= 0 && !input)
		close(fd);
	if (!good)
		return false;
	good = !out->failed && trim(out) && out->len > 0;
	if (out->failed)
		fprintf(stderr, "clusterctl: %s: %s: is larger than a token\n", what, name);
	else if (!good)
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, name, out->len == 0 ? "is empty" :
		    "holds more than a token, which is printable characters without a space");
	return good;
}

int
token_file_new(const char *what, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, path, strerror(errno));
	return fd;
}

bool
token_file_end(const char *what, const char *path, int fd, struct span secret)
{
	bool good = secret.len > 0 && write_all(fd, secret.p, secret.len) && write_all(fd, "\n", 1) && fsync(fd) == 0;

	if (!good && secret.len > 0)
		fprintf(stderr, "clusterctl: %s: %s: %s\n", what, path, strerror(errno));
	close(fd);
	if (!good)
		(void)unlink(path);
	return good;
}

static bool
take_secret(struct ctl *ctl, const char *secret, const char *from)
{
	buf_init(&ctl->token, TOKEN_BYTES_MAX);
	ctl->token.secret = true;
	buf_puts(&ctl->token, secret);
	if (!ctl->token.failed && trim(&ctl->token)) {
		ctl->token_from = from;
		return true;
	}
	fprintf(stderr, "clusterctl: %s: a token is printable characters without a space, up to %u\n", from,
	    TOKEN_BYTES_MAX);
	return false;
}

static bool
take_file(struct ctl *ctl, const char *path, const char *from)
{
	buf_init(&ctl->token, TOKEN_BYTES_MAX);
	if (!token_file_read(from, path, &ctl->token))
		return false;
	ctl->token_from = from;
	return true;
}

int
ctl_take_token(struct ctl *ctl)
{
	if (ctl->token_arg != NULL && ctl->token_file != NULL) {
		fprintf(stderr, "clusterctl: --token and --token-file: give one of them\n");
		return 2;
	}
	if (ctl->token_file != NULL)
		return take_file(ctl, ctl->token_file, "--token-file") ? 0 : 1;
	if (ctl->token_arg == NULL)
		return 0;
	bool taken = take_secret(ctl, ctl->token_arg, "--token");
	if (ctl->token_arg[0] != '\0')
		fprintf(stderr, "Other users of this machine can see a token on the command line: use --token-file or "
		    "TRIUMVIR_TOKEN.\n");
	sodium_memzero(ctl->token_arg, strlen(ctl->token_arg));
	return taken ? 0 : 2;
}

/* In the order of Consul, for which the file comes first. */
static bool
take_environment(struct ctl *ctl)
{
	const char *own = getenv("TRIUMVIR_TOKEN"), *file = getenv("CONSUL_HTTP_TOKEN_FILE");
	const char *theirs = getenv("CONSUL_HTTP_TOKEN");

	if (own != NULL && own[0] != '\0')
		return take_secret(ctl, own, "TRIUMVIR_TOKEN");
	if (file != NULL && file[0] != '\0')
		return take_file(ctl, file, "CONSUL_HTTP_TOKEN_FILE");
	return theirs == NULL || theirs[0] == '\0' || take_secret(ctl, theirs, "CONSUL_HTTP_TOKEN");
}

const char *
ctl_token(struct ctl *ctl)
{
	if (ctl->token_from == NULL && !take_environment(ctl))
		exit(1);
	return ctl->token.len > 0 ? buf_cstr(&ctl->token) : NULL;
}

struct client *
ctl_new_client(struct ctl *ctl)
{
	const char *token = ctl_token(ctl);

	return client_new(&ctl->at, token, token != NULL ? ctl->token_from : NULL);
}
