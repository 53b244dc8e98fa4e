/*
 * Public test vectors of the two patterns we use, as the cacophony project (a Haskell implementation of
 * Noise) publishes them in vectors/cacophony.txt; snow and others test against the same file.
 * All texts are hexadecimal.  Messages 0 and 1 are the handshake, then the initiator sends first.
 */
#ifndef TV_TESTS_UNIT_NOISE_VECTORS_H
#define TV_TESTS_UNIT_NOISE_VECTORS_H

#include "common/net/noise.h"

struct noise_vector {
	const char *name;
	enum noise_pattern pattern;
	const char *prologue, *psk, *init_ephemeral, *resp_ephemeral;
	const char *resp_static, *resp_static_public;	/* NK */
	struct { const char *payload, *ciphertext; } messages[6];
};

static const struct noise_vector noise_vectors[] = {
	{
		.name = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2b",
		.pattern = NOISE_NNPSK0,
		.prologue = "4a6f686e2047616c74",
		.psk = "54686973206973206d7920417573747269616e20706572737065637469766521",
		.init_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
		.resp_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
		.messages = {
			{ "4c756477696720766f6e204d69736573",
			  "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c7944ed63df2f5a12aee1185ee9c50305f2ec"
			  "f12421dcb53c047a63b784cf7c54a105" },
			{ "4d757272617920526f746862617264",
			  "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088430e0fe7d5c0c9b92f7478716c8852f1b4"
			  "f389edb75e3ebe546fafafd5b6f0f7" },
			{ "462e20412e20486179656b",
			  "0fe04b26dcfbb69f8a6a94c61f1a26ef88769218d32f5d17c068a6" },
			{ "4361726c204d656e676572",
			  "2239e0c540c01f09eb1f4cc5258fd5acfefff18a5a3773f21b7bfe" },
			{ "4a65616e2d426170746973746520536179",
			  "f216cb03d30fb8af1e561fe02a07552d09b416e27a75e62c77d193718b0bdaae9f" },
			{ "457567656e2042f6686d20766f6e2042617765726b",
			  "6e8baf98b944184dd7dc5ef14d8108cbeca626de118a5460f3308e294d61e17238bce29bd9" },
		},
	},
	{
		.name = "Noise_NKpsk0_25519_ChaChaPoly_BLAKE2b",
		.pattern = NOISE_NKPSK0,
		.prologue = "4a6f686e2047616c74",
		.psk = "54686973206973206d7920417573747269616e20706572737065637469766521",
		.init_ephemeral = "893e28b9dc6ca8d611ab664754b8ceb7bac5117349a4439a6b0569da977c464a",
		.resp_ephemeral = "bbdb4cdbd309f1a1f2e1456967fe288cadd6f712d65dc7b7793d5e63da6b375b",
		.resp_static = "4a3acbfdb163dec651dfa3194dece676d437029c62a408b4c5ea9114246e4893",
		.resp_static_public = "31e0303fd6418d2f8c0e78b91f22e8caed0fbe48656dcf4767e4834f701b8f62",
		.messages = {
			{ "4c756477696720766f6e204d69736573",
			  "ca35def5ae56cec33dc2036731ab14896bc4c75dbb07a61f879f8e3afa4c794432c362f61a0162a93280a9e1c53edb8c"
			  "e7487fd12a4d1731495a24051a5afca8" },
			{ "4d757272617920526f746862617264",
			  "95ebc60d2b1fa672c1f46a8aa265ef51bfe38e7ccb39ec5be34069f1448088430e8d0924ed6525d4045188c3b225604c"
			  "254ac2d8d33a8a3b0c7f5eb1975ba4" },
			{ "462e20412e20486179656b",
			  "4781e2a7bef65e0ae3da3508cf44a8b7a92880077b8e73afaef494" },
			{ "4361726c204d656e676572",
			  "f14b1feb6ff970fc3993f1c2383f33fa48138bfc5aa2ee89e40107" },
			{ "4a65616e2d426170746973746520536179",
			  "4ab72fba875b34dbc38da46b09fe1ad4d72faeb3514180d39a57b6cf22d646fcfa" },
			{ "457567656e2042f6686d20766f6e2042617765726b",
			  "1ca4c48531c304d8d1472124d5e082e29332d9527a743ac875b3bea0fb372f1d08168561b1" },
		},
	},
};

#endif
