/** The service under the model: everything real, and equal packages built and introspected once. */
import type { Introspect, Services } from '../../api/services.ts';
import { type ApiFixture, startApiFixture } from '../api/api-fixture.ts';
import type { Teardown } from '../runner/harness.ts';

/**
 * Starts an API for many publishes of few packages. Reading, checking, hashing and keeping a package happens each time;
 * what esbuild and the jailed child answered for the same source is remembered.
 */
export function startCachedApi(test: Teardown): Promise<ApiFixture> {
  const limits = { pluginsPerAccount: 10_000, installationsPerAccount: 10_000 };
  return startApiFixture(test, {
    limits,
    prepare: (services) => ({ ...services, ...cached(services) }),
  });
}

function cached({ bundler, introspect }: Services): Pick<Services, 'bundler' | 'introspect'> {
  const bundles = new Map<string, ReturnType<Services['bundler']['bundle']>>();
  const answers = new Map<string, ReturnType<Introspect>>();
  return {
    bundler: {
      ...bundler,
      bundle: (of, accountId) => remembered(bundles, of.sourceSha256, () => bundler.bundle(of, accountId)),
    },
    introspect: (request) => remembered(answers, request.bundleSha256, () => introspect(request)),
  };
}

function remembered<T>(known: Map<string, T>, key: string, make: () => T): T {
  const value = known.get(key) ?? make();
  known.set(key, value);
  return value;
}
