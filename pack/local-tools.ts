/** The host's own code, as the author's command line uses it; each part is loaded when a command asks for it. */
import type { LocalTools } from '../sdk/cli/local-tools.ts';

export const localTools: LocalTools = {
  async check(files, slug) {
    const { checkFolder } = await import('./local-check.ts');
    return checkFolder(files, slug);
  },
};
