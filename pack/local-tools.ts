/** The host's code for the author's command line; each part is loaded when a command needs it. */
import type { LocalTools } from '../sdk/cli/local-tools.ts';

export const localTools: LocalTools = {
  async requireLayout(files) {
    const { requireFolderLayout } = await import('./local-check.ts');
    requireFolderLayout(files);
  },
  async check(files, slug, signal) {
    const { checkFolder } = await import('./local-check.ts');
    return checkFolder(files, slug, signal);
  },
  async conformRuntime(check) {
    const { checkRuntime } = await import('../conform/runtime/check-runtime.ts');
    return checkRuntime(check);
  },
};
