/** The frame of every page: navigation, account menu and the page itself. */
import {
  AppShell,
  Badge,
  Burger,
  Center,
  Group,
  Loader,
  NavLink,
  ScrollArea,
  Stack,
  Text,
  VisuallyHidden,
} from '@mantine/core';
import { useDisclosure, useMediaQuery, useWindowEvent } from '@mantine/hooks';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { useEffect, useLayoutEffect, useRef, useSyncExternalStore } from 'react';
import { useWaitingUpdates } from '../installations/declined-updates.ts';
import { useMe } from '../rest/me.ts';
import { Problem } from '../rest/problem.ts';
import { hideActionErrors } from '../rest/use-action.ts';
import { isAnswered, isOwnWindow, RETURN_PATH } from '../sign-in/return-path.ts';
import { readSessionState, subscribeToSession } from '../sign-in/session-state.ts';
import { SignInDialog } from '../sign-in/sign-in-dialog.tsx';
import { SignInPage } from '../sign-in/sign-in-page.tsx';
import { signOut } from '../sign-in/sign-in-requests.ts';
import { AccountMenu } from './account-menu.tsx';
import { ActionButton } from './action-button.tsx';
import { readAnnouncement, subscribeToAnnouncements } from './announcements.ts';
import { ErrorAlert } from './error-alert.tsx';
import { documentation, operatorPlaces, places } from './navigation.ts';

/** Below the breakpoint `sm`, the navigation is a menu that covers the page. */
const IS_NARROW = '(max-width: 47.99em)';
/** They are above the menu, and close on Escape themselves. */
const OVERLAYS = '[role=menu], [role=dialog]';

export function AppFrame() {
  const session = useSyncExternalStore(subscribeToSession, readSessionState);
  const here = useRouterState({ select: ({ location }) => location.pathname });
  // Its first answer tells whether somebody is signed in.
  const me = useMe();
  const isSuspended = me.error instanceof Problem && me.error.code === 'account_suspended';
  if (session === 'none') return <SignInPage />;
  if (session === 'unknown' || isSuspended)
    return (
      <Center mih="100vh" component="main" p="md">
        {me.error ? (
          <Stack align="flex-start">
            <ErrorAlert isPage error={me.error} reset={() => void me.refetch()} />
            {isSuspended ? (
              <ActionButton size="sm" run={() => signOut(false)}>
                Sign out
              </ActionButton>
            ) : null}
          </Stack>
        ) : (
          <Loader aria-label="Loading" />
        )}
      </Center>
    );
  // Another tab may have signed in while the user was at the issuer.
  if (here === RETURN_PATH && (isAnswered() || isOwnWindow())) return <SignInPage />;
  return (
    <>
      <SignedIn here={here} />
      {session === 'ended' || session === 'replaced' ? <SignInDialog isReplaced={session === 'replaced'} /> : null}
    </>
  );
}

function SignedIn({ here }: { readonly here: string }) {
  const menu = useMenu();
  // biome-ignore lint/correctness/useExhaustiveDependencies: the menu of a phone and the errors are those of a page
  useEffect(() => {
    menu.close();
    hideActionErrors();
  }, [here]);
  return (
    <AppShell
      header={{ height: { base: 52, sm: 0 } }}
      navbar={{ width: 232, breakpoint: 'sm', collapsed: { mobile: !menu.isOpen } }}
      padding="md"
    >
      {menu.coversPage ? null : (
        <a className="skip-link" href="#page">
          Skip to the page
        </a>
      )}
      <AppShell.Header hiddenFrom="sm">
        <Group h="100%" px="md" justify="space-between" wrap="nowrap">
          <Group gap="sm" wrap="nowrap" miw={0}>
            <Burger
              ref={menu.button}
              opened={menu.isOpen}
              onClick={menu.toggle}
              size="sm"
              aria-label="Menu"
              aria-expanded={menu.isOpen}
            />
            <Brand />
          </Group>
          <AccountMenu />
        </Group>
      </AppShell.Header>
      <AppShell.Navbar ref={menu.navigation} p="sm" aria-label="Main" data-open={menu.isOpen || undefined}>
        <Group visibleFrom="sm" px={6} pt={6} pb={4}>
          <Brand />
        </Group>
        <AppShell.Section grow component={ScrollArea}>
          <Places here={here} onSelect={menu.close} />
          <Documentation />
        </AppShell.Section>
        <AppShell.Section visibleFrom="sm">
          <AccountMenu wide />
        </AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main ref={menu.page} id="page" tabIndex={-1} inert={menu.coversPage}>
        <div className="page">
          <Outlet />
        </div>
      </AppShell.Main>
      <Announcements />
    </AppShell>
  );
}

/** The navigation of a narrow screen: opened by a button, it covers the page until Escape or a choice closes it. */
function useMenu() {
  const [isOpen, { toggle, close }] = useDisclosure(false);
  const isNarrow = useMediaQuery(IS_NARROW);
  const button = useRef<HTMLButtonElement>(null);
  const navigation = useRef<HTMLDivElement>(null);
  const page = useRef<HTMLElement>(null);
  const coversPage = isOpen && isNarrow;
  useWindowEvent('keydown', ({ key, target }) => {
    const isOfOverlay = target instanceof Element && target.closest(OVERLAYS) !== null;
    if (key !== 'Escape' || !coversPage || isOfOverlay) return;
    button.current?.focus();
    close();
  });
  // The link that was chosen is hidden now, and a hidden element cannot keep the focus.
  useLayoutEffect(() => {
    if (!isOpen && navigation.current?.contains(document.activeElement)) page.current?.focus({ preventScroll: true });
  }, [isOpen]);
  return { isOpen, coversPage, toggle, close, button, navigation, page };
}

function Announcements() {
  const { text, number } = useSyncExternalStore(subscribeToAnnouncements, readAnnouncement);
  return (
    <VisuallyHidden role="status">
      <span key={number}>{text}</span>
    </VisuallyHidden>
  );
}

function Brand() {
  return (
    <Group gap={9} wrap="nowrap" miw={0}>
      <img src="/icon.svg" alt="" width={26} height={26} />
      {/* One line, which ends early with large text: the header is one line high. */}
      <Text fw={680} fz="lg" lts="-0.02em" truncate>
        Bulkhead
      </Text>
    </Group>
  );
}

interface PlacesProps {
  readonly here: string;
  readonly onSelect: () => void;
}

function Places({ here, onSelect }: PlacesProps) {
  const { data: me } = useMe();
  return [...places, ...(me?.operator ? operatorPlaces : [])].map(({ title, places }) => (
    <div key={title}>
      <div className="places-title">{title}</div>
      {places.map(({ to, label, icon: Icon }) => (
        <NavLink
          key={to}
          component={Link}
          to={to}
          label={label}
          className="place"
          onClick={onSelect}
          active={here === to || here.startsWith(`${to}/`)}
          leftSection={<Icon size={17} stroke={1.7} />}
          rightSection={to === '/installations' ? <WaitingUpdates /> : null}
        />
      ))}
    </div>
  ));
}

function WaitingUpdates() {
  const { size } = useWaitingUpdates();
  if (size === 0) return null;
  return (
    <Badge size="sm" color="yellow">
      <span>{size}</span>
      <VisuallyHidden>{size === 1 ? ' update waits' : ' updates wait'}</VisuallyHidden>
    </Badge>
  );
}

function Documentation() {
  const { href, label, icon: Icon } = documentation;
  return (
    <>
      <div className="places-title">Learn</div>
      <NavLink
        component="a"
        href={href}
        label={label}
        className="place"
        leftSection={<Icon size={17} stroke={1.7} />}
      />
    </>
  );
}
