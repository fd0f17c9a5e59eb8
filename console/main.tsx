/** The console: composes theme, sign-in and pages. */
import '@fontsource-variable/inter';
import '@fontsource-variable/jetbrains-mono';
import '@mantine/core/styles.layer.css';
import '@mantine/notifications/styles.layer.css';
import './style/console.css';
import './style/lists.css';
import './style/activity.css';
import { Center, Loader, MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { type ReactNode, StrictMode } from 'react';
import { createRoot } from 'react-dom/client';
import { queryClient } from './rest/query-client.ts';
import { router } from './router.tsx';
import { recoverLostFocus } from './shell/recover-focus.ts';
import { ignoreRepeatedPresses } from './shell/repeated-presses.ts';
import { openSignInLink } from './sign-in/sign-in-link.ts';
import { SignInLinkDialog } from './sign-in/sign-in-link-dialog.tsx';
import { theme, variables } from './style/theme.ts';

const element = document.getElementById('root');
if (!element) throw new Error('index.html has no #root');
const root = createRoot(element);
const render = (children: ReactNode): void =>
  root.render(
    <StrictMode>
      <MantineProvider theme={theme} cssVariablesResolver={variables} defaultColorScheme="auto">
        {children}
      </MantineProvider>
    </StrictMode>,
  );

// Not shown if the address is no sign-in link: then nothing is waited for.
render(
  <Center mih="100vh" component="main">
    <Loader aria-label="Signing in" />
  </Center>,
);
const signInLink = await openSignInLink();
recoverLostFocus();
ignoreRepeatedPresses();
render(
  <>
    <Notifications position="bottom-right" />
    <QueryClientProvider client={queryClient}>
      <RouterProvider router={router} />
      <SignInLinkDialog first={signInLink} />
    </QueryClientProvider>
  </>,
);
