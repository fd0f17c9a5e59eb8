/** The addresses of all pages. Each page is a separate chunk, so that the first one loads fast. */
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
  type RouteComponent,
} from '@tanstack/react-router';
import { parseTab, type Tab } from './installations/tabs.ts';
import { type OperatorTab, parseOperatorTab } from './operator/tabs.ts';
import { AppFrame } from './shell/app-frame.tsx';
import { ErrorAlert } from './shell/error-alert.tsx';
import { loadChunk } from './shell/load-chunk.ts';
import { NotFound } from './shell/not-found.tsx';
import { PageError } from './shell/page-error.tsx';
import { PagePending } from './shell/page-pending.tsx';

const top = createRootRoute({ component: AppFrame, notFoundComponent: NotFound, errorComponent: ErrorAlert });

const loadPage = <Name extends string>(load: () => Promise<Readonly<Record<Name, RouteComponent>>>, name: Name) =>
  lazyRouteComponent(() => loadChunk(load), name);

function page<const Path extends string, Name extends string>(
  path: Path,
  load: () => Promise<Readonly<Record<Name, RouteComponent>>>,
  name: Name,
) {
  return createRoute({ getParentRoute: () => top, path, component: loadPage(load, name) });
}

const routes = [
  createRoute({ getParentRoute: () => top, path: '/', component: () => <Navigate to="/catalog" /> }),
  createRoute({
    getParentRoute: () => top,
    path: '/catalog',
    // Not left out: the value of the address would stay.
    validateSearch: ({ q }: Record<string, unknown>): { q?: string | undefined } => ({
      q: typeof q === 'string' && q !== '' ? q : undefined,
    }),
    component: loadPage(() => import('./catalog/catalog-page.tsx'), 'CatalogPage'),
  }),
  page('/catalog/$slug', () => import('./catalog/entry-page.tsx'), 'EntryPage'),
  page('/installations', () => import('./installations/installations-page.tsx'), 'InstallationsPage'),
  createRoute({
    getParentRoute: () => top,
    path: '/installations/$id',
    validateSearch: ({ tab }: Record<string, unknown>): { tab?: Tab } => ({ tab: parseTab(tab) }),
    component: loadPage(() => import('./installations/installation-page.tsx'), 'InstallationPage'),
  }),
  page('/agents', () => import('./agents/agents-page.tsx'), 'AgentsPage'),
  page('/services', () => import('./services/services-page.tsx'), 'ServicesPage'),
  page('/tokens', () => import('./tokens/tokens-page.tsx'), 'TokensPage'),
  page('/storage', () => import('./storage/storage-page.tsx'), 'StoragePage'),
  page('/plugins', () => import('./authoring/plugins-page.tsx'), 'PluginsPage'),
  page('/plugins/$id', () => import('./authoring/plugin-page.tsx'), 'PluginPage'),
  createRoute({
    getParentRoute: () => top,
    path: '/operator',
    validateSearch: ({ tab }: Record<string, unknown>): { tab?: OperatorTab } => ({ tab: parseOperatorTab(tab) }),
    component: loadPage(() => import('./operator/operator-page.tsx'), 'OperatorPage'),
  }),
  page('/plugins/$id/edit', () => import('./editor/editor-page.tsx'), 'EditorPage'),
  page('/playground', () => import('./playground/playground-page.tsx'), 'PlaygroundPage'),
  page('/playground/$id', () => import('./playground/session-page.tsx'), 'SessionPage'),
] as const;

/** Until then, the page before stays: most pages come sooner. Milliseconds. */
const PENDING_AFTER_MS = 300;

export const router = createRouter({
  routeTree: top.addChildren(routes),
  defaultPreload: 'intent',
  defaultErrorComponent: PageError,
  defaultPendingComponent: PagePending,
  defaultPendingMs: PENDING_AFTER_MS,
  // The page replaces it as soon as its code is there.
  defaultPendingMinMs: 0,
  // Another id is another page: without this, the typed text and the open dialogs of one plugin would appear at the next.
  defaultRemountDeps: ({ routeId, params }) => ({ routeId, params }),
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
}
